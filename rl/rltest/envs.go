// Package rltest tests learners: toy environments that every one of them must
// solve in seconds, a kit of checks, and the plainest learner that passes them.
package rltest

import (
	"math/rand/v2"
	"time"

	"gearshift/rl"
)

// Identity is the environment of stable-baselines3's test_identity: the
// observation is one-hot, and an action is worth 1 if it is the hot index, else
// 0. Each completes at once. Episodes are truncated after 50 decisions.
type Identity struct {
	Size int // of observations and of the action set

	rng       *rand.Rand
	hot       int
	decisions int
	buffer    []float32
	completed [1]rl.Completion
}

// Reset begins an episode.
func (e *Identity) Reset(seed uint64) []float32 {
	e.rng = rand.New(rand.NewPCG(seed, 1))
	e.decisions = 0
	e.buffer = make([]float32, e.Size)
	return e.draw()
}

// Step takes a decision.
func (e *Identity) Step(action int) rl.Step {
	utility := 0.0
	if action == e.hot {
		utility = 1
	}
	e.completed[0] = rl.Completion{Decision: e.decisions, Utility: utility}
	e.decisions++
	return rl.Step{
		Observation: e.draw(),
		Truncated:   e.decisions == 50,
		Elapsed:     time.Second,
		Completed:   e.completed[:],
	}
}

func (e *Identity) draw() []float32 {
	e.hot = e.rng.IntN(e.Size)
	clear(e.buffer)
	e.buffer[e.hot] = 1
	return e.buffer
}

// The places of a Chain, each the hot index of its observation.
const (
	Start = iota
	Poor
	Rich
)

// Chain is a choice between a small utility now and a larger one later, of which
// a learner hears only after more decisions have been taken. At Start, action 0
// is worth 0.6 and leads to Poor, where nothing is worth anything; action 1 is
// worth nothing and leads to Rich, where any action is worth 1. Both lead back.
// Each decision completes two decisions later, at the latest in its episode's
// last step. Episodes end after 40 decisions.
type Chain struct {
	// Terminates ends the episodes in termination after the second decision
	// rather than in truncation: what follows Poor and Rich is then nothing.
	Terminates bool

	place     int
	utilities []float64
	completed []rl.Completion
	reported  int
	buffer    [3]float32
}

// Reset begins an episode.
func (e *Chain) Reset(uint64) []float32 {
	e.place, e.reported, e.utilities = Start, 0, e.utilities[:0]
	return e.observe()
}

// Step takes a decision.
func (e *Chain) Step(action int) rl.Step {
	utility, next := 0.0, Start
	switch {
	case e.place == Start && action == 0:
		utility, next = 0.6, Poor
	case e.place == Start:
		next = Rich
	case e.place == Rich:
		utility = 1
	}
	e.place = next
	e.utilities = append(e.utilities, utility)
	s := rl.Step{Observation: e.observe(), Elapsed: time.Second}
	if e.Terminates {
		s.Terminated = len(e.utilities) == 2
	} else {
		s.Truncated = len(e.utilities) == 40
	}
	due := len(e.utilities) - 2
	if s.Terminated || s.Truncated {
		due = len(e.utilities)
	}
	e.completed = e.completed[:0]
	for ; e.reported < due; e.reported++ {
		u := e.utilities[e.reported]
		e.completed = append(e.completed, rl.Completion{Decision: e.reported, Utility: u})
	}
	s.Completed = e.completed
	return s
}

func (e *Chain) observe() []float32 {
	clear(e.buffer[:])
	e.buffer[e.place] = 1
	return e.buffer[:]
}
