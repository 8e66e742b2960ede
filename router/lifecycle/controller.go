// Package lifecycle brings replicas into wanted states. Through an actuator it loads and
// unloads models, and puts them to sleep and wakes them. It drains replicas before that,
// keeps within the memory of hosts, and keeps the ledger's placement up to date. Time is
// passed in.
package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
)

// Options set the limits of a [Controller]. Zeros stand for the defaults.
type Options struct {
	// DrainTimeout is how long the requests on a replica may take to end before an
	// unload or a sleep is given up. The default is [DefaultDrainTimeout].
	DrainTimeout time.Duration
	// ActionTimeout is how long an action may take until its end is reported. After that
	// it counts as failed. The default is [DefaultActionTimeout].
	ActionTimeout time.Duration
	// Interval is how often a waiting replica is checked if no event comes. The default is
	// [DefaultInterval].
	Interval time.Duration
	// Together lists for each replica the others that its engine puts to sleep and wakes with it. Nil:
	// there are none.
	Together [][]int
	// Lowest returns the state that an unload leads to: Warm of an engine that can only sleep. Nil: it is
	// Cold.
	Lowest func(replica int) fleet.State
	// InFlight returns how many requests the replica has. Nil: as many as the ledger counts.
	InFlight func(replica int) int
	// Nudge, if not nil, has the controllers woken soon: something is wanted, or over.
	Nudge func()
}

// The defaults of [Options].
const (
	DefaultDrainTimeout  = 30 * time.Second
	DefaultActionTimeout = 15 * time.Minute
	DefaultInterval      = 50 * time.Millisecond
)

// Order sets how one replica is brought into a state.
type Order struct {
	// Force acts without waiting for the requests in flight, which break.
	Force bool
	// DrainTimeout, if not zero, replaces that of the options.
	DrainTimeout time.Duration
}

// Controller is a [control.Controller] that carries out the orders of [Controller.Want], and what others
// want by their [Claims]. A failed action leaves the replica in its state before, or cold if it was being loaded. It
// is not tried again without another order. Its methods must not be called concurrently.
type Controller struct {
	ledger   *fleet.Ledger
	table    *fleet.Table
	actuator control.Actuator
	options  Options
	replicas []replica

	now       time.Duration
	claims    []*Claims
	locations []location // by their first replicas
	first     []int      // by replica, that of its location
	open      []*open
	ends      []end // that have not been reported
	ids       uint64
}

var _ control.Controller = (*Controller)(nil)

// phase is how far an order is.
type phase uint8

const (
	settled  phase = iota // nothing is to be done
	draining              // its requests are to end
	ready                 // to act, as soon as there is memory for it
	acting                // the actuator is at work
)

type replica struct {
	phase  phase
	target fleet.State
	order  Order
	since  uint64       // the epoch of the last placement that is known
	verb   control.Verb // of the action, while acting
	from   fleet.State  // placed so before the action
	loaded bool         // placed Loading, and the load has ended: it is to sleep yet
	begun  bool         // until is known
	until  time.Duration
	led    bool          // acting by the action of another that sleeps with it
	mine   bool          // drained by the controller, for the order
	rank   Rank          // of who has ordered
	failed error         // why the last order was not followed
	ended  time.Duration // when the last action ended
	// doubt is the epoch of an action that timed out, until its end is reported after all:
	// the engine may still carry it out, and take the memory.
	doubt uint64
}

// New makes a controller of all replicas of the ledger. Their present states are the wanted
// ones.
func New(l *fleet.Ledger, a control.Actuator, o Options) *Controller {
	if o.DrainTimeout <= 0 {
		o.DrainTimeout = DefaultDrainTimeout
	}
	if o.ActionTimeout <= 0 {
		o.ActionTimeout = DefaultActionTimeout
	}
	if o.Interval <= 0 {
		o.Interval = DefaultInterval
	}
	if o.InFlight == nil {
		o.InFlight = l.InFlightOn
	}
	c := &Controller{ledger: l, table: l.Table(), actuator: a, options: o, replicas: make([]replica, len(l.Table().Replicas))}
	for i := range c.replicas {
		c.replicas[i].target, c.replicas[i].since = l.Placed(i), l.EpochOf(i)
		c.locations, c.first = append(c.locations, location{-1, i}), append(c.first, i)
	}
	return c
}

// Want orders the replica into a state, for an operator: Up, Warm, Cold, or Draining, which keeps it loaded
// and new requests away from it until another order. It returns at once; [Controller.Wake]
// does the work. An error says why the order cannot be carried out, and changes nothing. An
// earlier order that has not led to an action yet is replaced.
func (c *Controller) Want(i int, target fleet.State, o Order) error {
	if err := c.refuse(i, target); err != nil {
		return err
	}
	c.drop(func(p *open) bool { return p.State != target && slices.Contains(c.at(p), i) }, Operator)
	c.order(i, target, o, Operator)
	return nil
}

// order begins to bring the replica into the state.
func (c *Controller) order(i int, target fleet.State, o Order, rank Rank) {
	r := &c.replicas[i]
	if r.phase == draining && r.target == target { // the same, perhaps in more of a hurry
		r.order, r.begun, r.rank = o, false, rank
		return
	}
	c.release(i)
	r.rank = rank
	r.target, r.order, r.since, r.failed, r.begun = target, o, c.ledger.EpochOf(i), nil, false
	switch placed := c.ledger.Placed(i); {
	case target == fleet.Draining:
		c.ledger.SetDrained(i, true)
	case placed == fleet.Up && target == fleet.Up:
		c.ledger.SetDrained(i, false)
		c.stayUp(i)
	case placed == fleet.Up:
		r.phase = draining
		c.drain(i)
		if target == fleet.Warm {
			c.drainOthers(i)
		}
	case placed != target:
		r.phase = ready
	}
}

// drain keeps requests away from the replica, unless it is drained already.
func (c *Controller) drain(i int) {
	if !c.ledger.Drained(i) {
		c.ledger.SetDrained(i, true)
		c.replicas[i].mine = true
	}
}

// release ends what the controller does on the replica, except an action under way.
func (c *Controller) release(i int) {
	r := &c.replicas[i]
	if r.mine {
		r.mine = false
		c.ledger.SetDrained(i, false)
	}
	r.phase, r.loaded, r.led = settled, false, false
}

// refuse says why the replica cannot be brought into the state.
func (c *Controller) refuse(i int, target fleet.State) error {
	if i < 0 || i >= len(c.replicas) {
		return fmt.Errorf("there is no replica %d: the fleet has %d, counted from 0", i, len(c.replicas))
	}
	r, name, placed := &c.replicas[i], c.table.Replicas[i].Name, c.ledger.Placed(i)
	switch {
	case target != fleet.Up && target != fleet.Warm && target != fleet.Cold && target != fleet.Draining:
		return fmt.Errorf("%s cannot be brought into the state %v; want up, warm, cold or draining", name, target)
	case r.phase == acting || r.loaded:
		return fmt.Errorf("%s is being %s already; wait until that has ended", name, participle[r.verb])
	case r.phase == ready && r.target == target:
		return fmt.Errorf("%s is about to be brought into the state %v already", name, target)
	case placed == fleet.Loading || placed == fleet.Draining:
		return fmt.Errorf("%s is %v, begun from outside; wait until that has ended", name, placed)
	case target == fleet.Draining && placed != fleet.Up:
		return fmt.Errorf("%s is %v: there is nothing to drain", name, placed)
	case target == fleet.Up && placed != fleet.Up || target == fleet.Warm && placed == fleet.Cold:
		return c.unloadable(i, Operator)
	}
	return nil
}

// unloadable says why the replica cannot be loaded or woken for the rank.
func (c *Controller) unloadable(i int, rank Rank) error {
	variant := c.table.Replicas[i].Variant
	if len(c.table.Models) > 0 && c.table.ModelOf(variant) < 0 {
		return fmt.Errorf("%s cannot be loaded: its variant %q has no model; name one in variants[%d].model", c.table.Replicas[i].Name, c.table.Variants[variant].Name, variant)
	}
	return c.lack(i, rank)
}

var participle = map[control.Verb]string{control.Load: "loaded", control.Unload: "unloaded", control.Sleep: "put to sleep", control.Wake: "woken"}

// Status is what is known of one replica.
type Status struct {
	// State is the ledger's, and Placed that in which the replica was placed last.
	State, Placed fleet.State
	// Target is the state that was last wanted, or that the replica was left in by an
	// order that failed.
	Target fleet.State
	// Doing says in a word or two what is being done; empty if nothing is.
	Doing string
	// Epoch is that of the replica's last placement.
	Epoch uint64
	// Err is why the last order was not followed; nil if it was.
	Err error
	// Ended is when the last action ended; 0 before the first.
	Ended time.Duration
}

// Status is that of the replica.
func (c *Controller) Status(i int) Status {
	r := &c.replicas[i]
	s := Status{State: c.ledger.State(i), Placed: c.ledger.Placed(i), Target: r.target, Epoch: c.ledger.EpochOf(i), Err: r.failed, Ended: r.ended}
	switch {
	case r.phase == draining:
		s.Doing = "draining"
	case r.phase == ready:
		s.Doing = "waiting"
	case r.phase == acting:
		s.Doing = r.verb.String()
	}
	return s
}

// Settled reports whether no order is being followed.
func (c *Controller) Settled() bool {
	for i := range c.replicas {
		if c.replicas[i].phase != settled {
			return false
		}
	}
	return true
}
