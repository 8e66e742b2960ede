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
	over    bool      // the workload has ended, and with it all requests
	err     error     // why the branch leads nowhere
}

// begin makes b the way that e takes with the action; t holds the requests.
func (b *branch) begin(e *env.Environment, t *tape, action int) {
	b.first = int(e.Request().ID)
	b.rest = reader{t, b.first + 1}
	b.env.CopyFrom(e, &b.rest)
	b.rewards, b.over, b.err = b.rewards[:0], false, nil
	b.step(action)
}

func (b *branch) step(action int) {
	s, err := b.env.Step(action)
	b.rewards = append(b.rewards, s.Reward)
	b.over, b.err = s.Terminated || s.Truncated, err
}

// extend lets base route every request that arrives until then.
func (b *branch) extend(base Decider, scratch []float32, until time.Duration) {
	for !b.over && b.err == nil && b.env.Request().Arrival <= until {
		b.step(base.Decide(b.env.View(), b.env.Request(), scratch))
	}
}

// forget drops the rewards of the steps before the decision.
func (b *branch) forget(decision int) {
	b.rewards = append(b.rewards[:0], b.rewards[decision-b.first:]...)
	b.first = decision
}

// value is the sum of the utilities of all requests that end after the branch's
// first decision, if nothing arrives any more. The branch stays as it is: into
// is a copy that runs to the end. False if the branch leads nowhere.
func (b *branch) value(into *env.Environment, outcomes *[]env.Outcome) (sum float64, ok bool) {
	if b.err != nil {
		return 0, false
	}
	for _, r := range b.rewards {
		sum += r
	}
	if b.over {
		return sum, true
	}
	into.CopyFrom(&b.env, nil)
	var err error
	if *outcomes, err = into.Simulator().Drain((*outcomes)[:0]); err != nil {
		return 0, false
	}
	for i := range *outcomes {
		sum += (*outcomes)[i].Utility
	}
	return sum, true
}
