package bands

import (
	"cmp"
	"time"

	"gearshift/router/control"
)

// Fleet is what the controller sees, and what it changes it by. Replicas have numbers, as
// actions have them.
type Fleet interface {
	// Act begins a Load, after which the replica takes requests, or an Unload, before which those that it has end.
	control.Actuator
	// Measure returns what is where now. The measurement is the caller's until it asks again.
	Measure() *Measurement
	// Replica returns the number of a model's replica on a host.
	Replica(model, host int) int
}

// Measurement is what is where.
type Measurement struct {
	Problem Problem
	// Numbers are those of the problem's replicas.
	Numbers []int
	// Unknown is set for replicas whose use could not be measured. The mean of the model's other
	// replicas stands in for it.
	Unknown []bool
	// Moving is set for replicas that are being loaded or unloaded, by this controller or
	// another; nil if none is. What another one moves is left alone: all replicas of that model
	// stay.
	Moving []bool
}

// Settings is when a controller acts.
type Settings struct {
	Options Options
	// Period is how often replicas are moved, if hosts are beyond bands. The default is
	// [DefaultPeriod].
	Period time.Duration
	// Threshold is the mean use of the resources that are even, as a share of what there is,
	// below which nothing is moved for a band's sake, since no host is short of anything. Scenarios
	// have [DefaultThreshold].
	Threshold float64
	// AtOnce is how many moves are under way at most. The default is [DefaultAtOnce].
	AtOnce int
	// Rest is for how many periods a replica that has been moved stays. The default is
	// [DefaultRest].
	Rest int
	// Newest is the weight of the newest measurement in the mean by which is planned, from
	// above 0 to 1. The default is [DefaultNewest].
	Newest float64
	// ActionTimeout is how long a load or an unload may take until the move is given up. The
	// default is [DefaultActionTimeout].
	ActionTimeout time.Duration
}

// The defaults of [Settings].
const (
	DefaultPeriod        = time.Minute
	DefaultThreshold     = 0.3
	DefaultAtOnce        = 1
	DefaultRest          = 3
	DefaultNewest        = 0.5
	DefaultActionTimeout = 15 * time.Minute
)

// Controller keeps hosts within bands: each period it measures, plans, and moves some
// replicas. A move loads the replica on its new host and then unloads the old one, so that a model
// never has fewer replicas than before.
type Controller struct {
	fleet    Fleet
	settings Settings
	due      time.Duration
	periods  int
	epoch    uint64
	moves    []*transfer
	barred   []barred
	seen     map[int]*seen // by number
	status   Status
}

var _ control.Controller = (*Controller)(nil)

// seen is what is known of a replica from earlier periods.
type seen struct {
	use    []float64
	period int // the last in which it was measured
	until  int // the period until which it stays
}

// phase is how far a move is.
type phase uint8

const (
	loading phase = iota
	unloading
)

// transfer is one under way.
type transfer struct {
	old, young int // numbers
	model      int
	from, to   int // hosts
	use        []float64
	phase      phase
	since      time.Duration
	ended      bool // the action that the phase waits for
	failed     bool
}

// barred is a host to which a model was not to be loaded, and is not until a period.
type barred struct{ number, model, host, until int }

// Status is what the controller has done so far.
type Status struct {
	// Moved counts the moves that are done, Failed those that were given up.
	Moved, Failed int
	// Moves are the loads and unloads of moves under way.
	Moves []control.Action
	// Beyond is what hosts used beyond bands and limits at the last measurement, as
	// [Problem.Excess] has it.
	Beyond float64
	// Fault is why the last measurement could not be planned by; nil if it could.
	Fault error
}

// New makes a controller of the fleet, which first measures after a period.
func New(f Fleet, s Settings) *Controller {
	s.Period, s.AtOnce, s.Rest = cmp.Or(s.Period, DefaultPeriod), cmp.Or(s.AtOnce, DefaultAtOnce), cmp.Or(s.Rest, DefaultRest)
	s.Newest, s.ActionTimeout = cmp.Or(s.Newest, DefaultNewest), cmp.Or(s.ActionTimeout, DefaultActionTimeout)
	return &Controller{fleet: f, settings: s, due: s.Period, seen: map[int]*seen{}}
}

// Status returns what the controller has done so far.
func (c *Controller) Status() Status {
	s := c.status
	for _, m := range c.moves {
		a := control.Action{Verb: control.Unload, Replica: m.old}
		if m.phase == loading {
			a.Verb, a.Replica = control.Load, m.young
		}
		s.Moves = append(s.Moves, a)
	}
	return s
}

// Observe implements [control.Controller].
func (c *Controller) Observe(e control.Event) {
	for _, m := range c.moves {
		switch {
		case m.phase == loading && e.Replica == m.young && e.Kind == control.Loaded,
			m.phase == unloading && e.Replica == m.old && e.Kind == control.Unloaded:
			m.ended = true
		case (e.Kind == control.ActionFailed || e.Kind == control.Evicted) && (m.phase == loading && e.Replica == m.young || m.phase == unloading && e.Replica == m.old):
			m.failed = true
		}
	}
}

// Wake implements [control.Controller].
func (c *Controller) Wake(now time.Duration) time.Duration {
	kept := c.moves[:0]
	for _, m := range c.moves {
		if c.proceed(m, now) {
			kept = append(kept, m)
		}
	}
	c.moves = kept
	if now >= c.due {
		c.balance(now)
		for c.due <= now {
			c.due += c.settings.Period
		}
	}
	next := c.due
	for _, m := range c.moves {
		next = min(next, m.since+c.settings.ActionTimeout)
	}
	return max(next, now+1)
}

// proceed brings a move on, and reports whether it is under way still.
func (c *Controller) proceed(m *transfer, now time.Duration) bool {
	if m.failed || !m.ended && now-m.since >= c.settings.ActionTimeout {
		return c.giveUp(m)
	}
	switch {
	case m.phase == loading && m.ended:
		m.phase, m.since, m.ended = unloading, now, false
		if !c.act(control.Unload, m.old) {
			return c.giveUp(m)
		}
	case m.phase == unloading && m.ended:
		c.status.Moved++
		delete(c.seen, m.old)
		return false
	}
	return true
}

// giveUp ends a move that has failed. What may be loaded by half is unloaded, as far as it lets
// itself.
func (c *Controller) giveUp(m *transfer) bool {
	if m.phase == loading {
		c.act(control.Unload, m.young)
		c.barred = append(c.barred, barred{m.young, m.model, m.to, c.periods + c.settings.Rest})
	}
	c.status.Failed++
	return false
}

// act begins an action, and reports whether it was begun.
func (c *Controller) act(v control.Verb, replica int) bool {
	c.epoch++
	return c.fleet.Act(control.Action{Verb: v, Replica: replica, Epoch: c.epoch}) == nil
}
