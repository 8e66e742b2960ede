package rl

import (
	"fmt"
	"slices"
)

// joiner holds the decisions of the present episode until the utilities that
// they earned are known, and makes transitions of them. A decision is begun with
// its observation, ended with its discount, and completes with its utility. Its
// transition leaves for replay as soon as the utilities of its whole return are
// known: those of up to n decisions from it on (n-step returns, Sutton and Barto
// 2018, 7.1).
//
// A return ends early once its discount has fallen to least: where decisions are
// unevenly far apart, that spans about the same time under any load. It also
// ends where the stratum changes, so that all of it is centred by
// the same mean, and at the end of the episode.
type joiner struct {
	inputs, n int
	least     float32

	observations []float32 // (decisions, inputs)
	actions      []int32
	discounts    []float32
	utilities    []float64
	strata       []int32
	state        []joinState

	following []float32 // what the latest decision led to
	over      bool      // the latest decision is the episode's last
}

// joinState is how far a decision is.
type joinState uint8

const (
	pending joinState = iota
	completed
	left // its transition has left; its utility still counts for earlier ones
)

func newJoiner(inputs, n int, least float64) *joiner {
	return &joiner{inputs: inputs, n: max(1, n), least: float32(least)}
}

// reset begins an episode. It drops the decisions that it still holds: their outcomes will
// not come.
func (j *joiner) reset() {
	j.observations, j.actions, j.discounts = j.observations[:0], j.actions[:0], j.discounts[:0]
	j.utilities, j.strata, j.state = j.utilities[:0], j.strata[:0], j.state[:0]
	j.over = false
}

// begin holds the episode's next decision.
func (j *joiner) begin(observation []float32, action int32) {
	j.observations = append(j.observations, observation...)
	j.actions = append(j.actions, action)
	j.discounts = append(j.discounts, 0)
	j.utilities = append(j.utilities, 0)
	j.strata = append(j.strata, 0)
	j.state = append(j.state, pending)
}

// end adds what followed the latest decision: the next observation, how much of
// its value counts, 0 if the episode terminated, and whether the episode is over.
func (j *joiner) end(next []float32, discount float32, over bool) {
	j.following = append(j.following[:0], next...)
	j.discounts[len(j.discounts)-1] = discount
	j.over = over
}

// complete records a decision's utility, and moves the transitions that it completes to
// replay, in the order of their decisions. A nil replay drops them.
func (j *joiner) complete(c Completion, replay *Replay) error {
	switch {
	case c.Decision < 0 || c.Decision >= len(j.state):
		return fmt.Errorf("cannot join completion: decision %d of %d", c.Decision, len(j.state))
	case j.state[c.Decision] != pending:
		return fmt.Errorf("cannot join completion: decision %d completed twice", c.Decision)
	case c.Stratum < 0 || c.Stratum >= Strata:
		return fmt.Errorf("cannot join completion: stratum %d of %d", c.Stratum, Strata)
	}
	j.state[c.Decision] = completed
	j.utilities[c.Decision], j.strata[c.Decision] = c.Utility, int32(c.Stratum)
	if replay != nil {
		replay.Note(c)
	}
	for i := max(0, c.Decision-j.n+1); i <= c.Decision; i++ {
		j.leave(i, replay)
	}
	return nil
}

// leave moves decision i's transition to replay if its whole return is known.
func (j *joiner) leave(i int, replay *Replay) {
	if j.state[i] != completed {
		return
	}
	t := Transition{Action: j.actions[i], Stratum: int(j.strata[i]), Discount: 1}
	k := i
	for ; k < i+j.n && t.Discount > j.least; k++ {
		if k == len(j.state) {
			if !j.over {
				return
			}
			break
		}
		if j.state[k] == pending {
			return
		}
		if j.strata[k] != j.strata[i] {
			break
		}
		t.Return += t.Discount * float32(j.utilities[k])
		t.Weight += t.Discount
		t.Discount *= j.discounts[k]
	}
	if t.Next = j.following; k < len(j.state) {
		t.Next = j.observation(k)
	}
	j.state[i] = left
	if replay != nil {
		t.Observation = j.observation(i)
		replay.Add(t)
	}
}

func (j *joiner) observation(i int) []float32 {
	return slices.Clip(j.observations[i*j.inputs : (i+1)*j.inputs])
}
