package planner

import (
	"time"

	"gearshift/env"
)

// branch is one way in which an episode may go on: from a decision on, with one
// action for that and the base's for all after.
type branch struct {
	env     env.Environment
	rest    reader
	first   int       // the decision that rewards begin at
	rewards []float64 // by step
	marks   []uint64  // fingerprints after each step but the last of an episode
	tail    float64   // what all requests in flight at the end earn; see finish
	over    bool      // the workload has ended, and with it all requests
	met     bool      // at the end it is where the trunk has been
	err     error     // why the branch leads nowhere
}

// begin makes b the way that e takes with the action; all holds the requests.
func (b *branch) begin(e *env.Environment, all *recording, action int) {
	b.first = int(e.Request().ID)
	b.rest = reader{all, b.first + 1}
	b.env.CopyFrom(e, &b.rest)
	b.rewards, b.marks = b.rewards[:0], b.marks[:0]
	b.tail, b.over, b.met, b.err = 0, false, false, nil
	b.step(action)
}

func (b *branch) step(action int) {
	s, err := b.env.Step(action)
	b.rewards = append(b.rewards, s.Reward)
	b.over, b.err = s.Terminated || s.Truncated, err
	if !b.over && b.err == nil {
		b.marks = append(b.marks, b.env.Fingerprint())
	}
}

// extend lets base route every request that arrives until then. Beside a trunk
// that begins at the same decision and has been extended as far, it stops where
// the two meet, as they go on alike.
func (b *branch) extend(base Decider, scratch []float32, until time.Duration, trunk *branch) {
	for !b.over && b.err == nil && b.env.Request().Arrival <= until {
		if trunk != nil && b.meets(trunk) {
			b.met = true
			return
		}
		b.step(base.Decide(b.env.View(), b.env.Request(), scratch))
	}
}

func (b *branch) meets(trunk *branch) bool {
	last := len(b.marks) - 1
	return last < len(trunk.marks) && b.marks[last] == trunk.marks[last]
}

// forget drops the steps before the decision.
func (b *branch) forget(decision int) {
	n := decision - b.first
	b.rewards = append(b.rewards[:0], b.rewards[n:]...)
	b.marks = append(b.marks[:0], b.marks[min(n, len(b.marks)):]...)
	b.first = decision
}

// finish finds what those in flight will earn if nothing arrives any more, on a
// copy that runs to the end.
func (b *branch) finish(into *env.Environment, outcomes *[]env.Outcome) {
	b.tail = 0
	if b.over || b.met || b.err != nil {
		return
	}
	into.CopyFrom(&b.env, nil)
	if *outcomes, b.err = into.Simulator().Drain((*outcomes)[:0]); b.err != nil {
		return
	}
	for i := range *outcomes {
		b.tail += (*outcomes)[i].Utility
	}
}

// value returns the sum of the utilities of all requests that end after the first
// decision of a branch that is finished, as trunk is. False if it leads nowhere.
func (b *branch) value(trunk *branch) (float64, bool) {
	if b.met {
		return sum(b.rewards) + sum(trunk.rewards[len(b.rewards):]) + trunk.tail, trunk.err == nil
	}
	return sum(b.rewards) + b.tail, b.err == nil
}

// adopt makes the trunk b the way of o, which met it.
func (b *branch) adopt(o *branch) {
	copy(b.rewards, o.rewards)
	copy(b.marks, o.marks)
}

func sum(values []float64) (s float64) {
	for _, v := range values {
		s += v
	}
	return s
}
