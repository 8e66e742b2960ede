// Package planner holds upper references for routing policies: a decider that
// simulates each choice forward on the true future before it makes it
// ([Clairvoyant]), and a bound on what any policy can reach in the fluid limit
// ([Fluid]).
//
// A clairvoyant looks at the environment that it decides for, so each is made
// for one run of it. It reads no clock and draws nothing at random: the same run
// gives the same choices.
package planner

import (
	"fmt"
	"math"
	"time"

	"gearshift/env"
	"gearshift/router/fleet"
	"gearshift/workloads"
)

// DefaultHorizon is how much of the future a planner looks at, beyond which
// only what is in flight counts.
const DefaultHorizon = 25 * time.Second

// ClairvoyantOptions are the settings of [Clairvoyant].
type ClairvoyantOptions struct {
	// Horizon is how much of the future has arrivals.
	Horizon time.Duration
	// Passes is how often the whole episode is planned: each pass but the first
	// has the choices of the one before as its base. Zero is one.
	Passes int
}

func (o ClairvoyantOptions) validate() error {
	if o.Horizon < 0 {
		return fmt.Errorf("a horizon of %v; 0 or more is possible", o.Horizon)
	}
	if o.Passes < 0 {
		return fmt.Errorf("%d passes; 0 or more are possible", o.Passes)
	}
	return nil
}

// Clairvoyant decides with knowledge that no router has: for each action it
// simulates the true future, arrivals and output lengths and all, with its base
// routing the requests that arrive within the horizon; what is in flight then
// runs to its end without further arrivals. It takes the action with the highest
// sum of utilities over everything that ends after the decision, the same
// requests for each action; of equal sums the base's own choice, then the first.
//
// It is a reference, not a bound: a step of policy improvement on its base that
// is right about the future, but only within the horizon, and only for one
// request at a time. Further passes improve on the choices themselves, request
// by request, as the future that they were made for is the one that comes.
//
// The way of the action taken is, from the next request on, the way of the
// base's choice there. So it is kept and extended by the few requests that come
// into the horizon, and of n actions only n − 1 are simulated again, each until it
// meets the base's way again. If the horizon holds the whole episode, each choice
// keeps all that was gained before: then no pass is worse than the one before it,
// nor the first than the base. Not so where the engines are other than declared: what
// would be noticed of them in a future is not simulated.
type Clairvoyant struct {
	real      *env.Environment
	base      Decider
	horizon   time.Duration
	recording *recording
	scratch   []float32

	trunk, other, best *branch // trunk is the base's way
	ready              bool    // trunk has the way of the last choice
	drained            env.Environment
	outcomes           []env.Outcome
}

// NewClairvoyant makes the decider for e, which has just been reset with the
// seed. The base must route for e's fleet. With more than one pass, all but the
// last are planned now.
func NewClairvoyant(e *env.Environment, seed uint64, base Decider, o ClairvoyantOptions) (*Clairvoyant, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("cannot plan with foresight: %w", err)
	}
	for range o.Passes - 1 {
		var err error
		if base, err = write(e.Config(), seed, base, o.Horizon); err != nil {
			return nil, err
		}
	}
	stream, err := e.Config().Open(seed)
	if err != nil {
		return nil, fmt.Errorf("cannot look at the future: %w", err)
	}
	return &Clairvoyant{
		real: e, base: base, horizon: o.Horizon,
		recording: &recording{stream: stream},
		scratch:   make([]float32, base.Scratch()),
		trunk:     new(branch), other: new(branch), best: new(branch),
	}, nil
}

// Scratch is zero: the planner has buffers of its own.
func (c *Clairvoyant) Scratch() int { return 0 }

// Decide chooses for the present request of the environment that c was made
// for, whose view and request the arguments must be.
func (c *Clairvoyant) Decide(v *fleet.View, r *fleet.Request, _ []float32) int {
	until := r.Arrival + min(c.horizon, math.MaxInt64-r.Arrival)
	own := c.base.Decide(v, r, c.scratch)
	c.follow(int(r.ID), own)
	c.trunk.extend(c.base, c.scratch, until, nil)
	c.trunk.finish(&c.drained, &c.outcomes)
	highest, possible := c.trunk.value(nil)
	choice := own
	for action := range v.Table.Variants {
		if action == own || !v.VariantAvailable(action) {
			continue
		}
		c.other.begin(c.real, c.recording, action)
		c.other.extend(c.base, c.scratch, until, c.trunk)
		c.other.finish(&c.drained, &c.outcomes)
		value, ok := c.other.value(c.trunk)
		if ok && (!possible || value > highest+tie) {
			highest, possible, choice = value, true, action
			c.other, c.best = c.best, c.other
		}
	}
	switch {
	case choice == own:
	case c.best.met:
		c.trunk.adopt(c.best)
	default:
		c.trunk, c.best = c.best, c.trunk
	}
	return choice
}

// follow makes trunk begin at the decision: with what is left of it if it is
// the way that led here, else from its beginning.
func (c *Clairvoyant) follow(decision, own int) {
	// What is believed of slow replicas stands still in a simulated future, so the base
	// may choose otherwise here than it did there.
	led := c.ready && c.trunk.err == nil && decision == c.trunk.first+1 && c.real.Config().Declared == nil
	c.ready = true
	if !led {
		c.trunk.begin(c.real, c.recording, own)
		return
	}
	c.trunk.forget(decision)
}

// Decider chooses a variant for a request. A clairvoyant is one, and needs one as
// its base: the policy that is taken to route everything after the request in
// question. Decide must be pure; it has scratch of length Scratch.
type Decider interface {
	Scratch() int
	Decide(v *fleet.View, r *fleet.Request, scratch []float32) int
}

// tie is the difference of two sums of utilities below which they are equal:
// well above their rounding, well below what one request is worth.
const tie = 1e-9

// recording is a workload's requests by decision, read from its stream as needed.
type recording struct {
	stream   workloads.Stream // nil once all are read
	arrivals []workloads.Arrival
}

// reader is a recording as a stream, from the request of decision next on.
type reader struct {
	*recording
	next int
}

// Next implements [workloads.Stream].
func (r *reader) Next() (workloads.Arrival, bool) {
	for r.stream != nil && len(r.arrivals) <= r.next {
		a, ok := r.stream.Next()
		if !ok {
			r.stream = nil
			break
		}
		r.arrivals = append(r.arrivals, a)
	}
	if r.next >= len(r.arrivals) {
		return workloads.Arrival{}, false
	}
	r.next++
	return r.arrivals[r.next-1], true
}

// script is choices made before, by decision, as a decider. Where one is not
// available it asks another.
type script struct {
	choices   []int
	otherwise Decider
}

// Scratch implements [Decider].
func (s *script) Scratch() int { return s.otherwise.Scratch() }

// Decide implements [Decider].
func (s *script) Decide(v *fleet.View, r *fleet.Request, scratch []float32) int {
	if r.ID < uint64(len(s.choices)) && v.VariantAvailable(s.choices[r.ID]) {
		return s.choices[r.ID]
	}
	return s.otherwise.Decide(v, r, scratch)
}

// write plays a whole episode with a clairvoyant over the base and keeps its
// choices.
func write(c env.Config, seed uint64, base Decider, horizon time.Duration) (*script, error) {
	e, err := env.New(c)
	if err != nil {
		return nil, err
	}
	if _, err := e.Reset(seed); err != nil {
		return nil, err
	}
	planner, err := NewClairvoyant(e, seed, base, ClairvoyantOptions{Horizon: horizon})
	if err != nil {
		return nil, err
	}
	s := &script{otherwise: base}
	for {
		choice := planner.Decide(e.View(), e.Request(), nil)
		s.choices = append(s.choices, choice)
		step, err := e.Step(choice)
		if err != nil {
			return nil, err
		}
		if step.Terminated || step.Truncated {
			return s, nil
		}
	}
}
