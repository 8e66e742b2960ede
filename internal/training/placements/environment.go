package placements

import (
	"errors"
	"iter"
	"math/rand/v2"
	"sort"
	"time"

	"gearshift/env"
	"gearshift/rl"
	"gearshift/router/placement/layouts"
	"gearshift/workloads"
)

// environment has a learner decide about the layouts of hosts: a step is one decision of the controller, and its action
// a row of a [layouts.Encoder]. Seconds in which no host may change have no decision.
//
// A decision is rewarded by what the requests earn that arrive until the next one, less what the same requests earn with
// the layouts of the start: the episode is played with those before.
type environment struct {
	simulations [][2]*simulation // by law; the second is told the rate
	loads       *loads
	known       float64 // share of episodes

	encoder     *layouts.Encoder // of the present episode
	observation []float32
	phases      []workloads.Phase
	base        ledger
	next        func() (struct{}, bool)
	stop        func()
	over        bool
	action      int
	now         time.Duration
	pending     []decision
	first       int // that has not completed
	completed   []rl.Completion
	err         error
}

// decision is one of the episode with what its requests have earned so far.
type decision struct {
	at              time.Duration
	requests, ended int
	earned          float64
	base            float64
	done            bool
}

// episodeStream is the stream of random numbers that draws an episode's law.
const episodeStream = 0x6c6177

// choose returns the simulation of an episode.
func (e *environment) choose(seed uint64) *simulation {
	rng := rand.New(rand.NewPCG(seed, episodeStream))
	w := e.simulations[rng.IntN(len(e.simulations))]
	if rng.Float64() < e.known {
		return w[1]
	}
	return w[0]
}

// Reset implements [rl.Env].
func (e *environment) Reset(seed uint64) []float32 {
	if e.stop != nil {
		e.stop()
	}
	w := e.choose(seed)
	e.phases = e.loads.draw(seed)
	e.base.reset()
	if err := w.play(seed, fixed, e.base.add); err != nil {
		e.err = err
		return e.observation
	}
	e.base.close()
	e.encoder, e.pending, e.first, e.over = nil, e.pending[:0], 0, false
	e.next, e.stop = iter.Pull(func(yield func(struct{}) bool) {
		c := &asked{environment: e, yield: yield}
		err := w.play(seed, layouts.By(c), c.ended)
		e.err = errors.Join(e.err, err)
	})
	if !e.advance() && e.err == nil {
		e.err = errors.New("an episode has no decision; want hosts with several layouts")
	}
	return e.observation
}

// advance runs to the next decision, and reports whether there is one.
func (e *environment) advance() bool {
	if e.over {
		return false
	}
	_, ok := e.next()
	e.over = !ok
	return ok
}

// Step implements [rl.Env].
func (e *environment) Step(action int) rl.Step {
	began := e.now
	e.action = action
	e.pending = append(e.pending, decision{at: began})
	e.completed = e.completed[:0]
	more := e.advance()
	if !more {
		e.now = e.loads.length
	}
	d := &e.pending[len(e.pending)-1]
	if e.err == nil {
		d.requests, d.base = e.base.between(began, e.now)
	}
	e.settle(!more)
	return rl.Step{Observation: e.observation, Truncated: !more, Elapsed: e.now - began, Completed: e.completed}
}

// settle completes the decisions whose requests have all ended; all of them at the end of an episode.
func (e *environment) settle(all bool) {
	for i := e.first; i < len(e.pending); i++ {
		if d := &e.pending[i]; !d.done && (all || d.ended >= d.requests) {
			d.done = true
			e.completed = append(e.completed, rl.Completion{Decision: i, Utility: (d.earned - d.base) * weight(e.phases, d.at)})
		}
	}
	for e.first < len(e.pending) && e.pending[e.first].done {
		e.first++
	}
}

// asked is the chooser of an episode that is played inside out: it hands each situation over and takes the action.
type asked struct {
	*environment
	yield   func(struct{}) bool
	stopped bool
}

// Choose implements [layouts.Chooser].
func (c *asked) Choose(s *layouts.Situation) layouts.Change {
	e := c.environment
	if c.stopped || s.Now >= e.loads.length {
		return layouts.None("")
	}
	if e.encoder == nil {
		e.encoder = layouts.NewEncoder(s)
	}
	if n := e.encoder.Dim(); len(e.observation) != n {
		e.observation = make([]float32, n)
	}
	e.encoder.Encode(e.observation, s)
	if !e.encoder.Due() {
		return layouts.None("")
	}
	e.now = s.Now
	if !c.yield(struct{}{}) {
		c.stopped = true
		return layouts.None("")
	}
	e.encoder.Decided(e.action)
	return e.encoder.Change(e.action)
}

// ended adds what a request has earned to the decision before its arrival.
func (c *asked) ended(o *env.Outcome) bool {
	e := c.environment
	i := sort.Search(len(e.pending), func(i int) bool { return e.pending[i].at > o.Request.Arrival }) - 1
	if i >= 0 {
		e.pending[i].earned += o.Utility
		e.pending[i].ended++
	}
	return !c.stopped
}
