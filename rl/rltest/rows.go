package rltest

import (
	"math/rand/v2"
	"time"

	"gearshift/rl"
)

// Market is a toy of rows ([rl.Rows]): each decision offers Size goods, of which
// some are not to be had. A good's own numbers are whether it is, its worth
// between 0 and 1, and what it costs; the shared number says how much of its cost
// counts. Each decision completes at once. Episodes are truncated after 50.
type Market struct {
	Size int

	rng       *rand.Rand
	decisions int
	buffer    []float32
	completed [1]rl.Completion
}

// Rows is the division of the observations.
func (e *Market) Rows() rl.Rows { return rl.Rows{Shared: 1, Own: 3, Count: e.Size} }

// Reset begins an episode.
func (e *Market) Reset(seed uint64) []float32 {
	e.rng = rand.New(rand.NewPCG(seed, 1))
	e.decisions = 0
	e.buffer = make([]float32, e.Rows().Dim())
	return e.draw()
}

// Worth is what the action is worth at an observation; a good that is not to be
// had is worth less than any that is.
func (e *Market) Worth(observation []float32, action int) float64 {
	own := observation[1+3*action:][:3]
	if own[0] == 0 {
		return -10
	}
	return float64(own[1] - observation[0]*own[2])
}

// Step takes a decision.
func (e *Market) Step(action int) rl.Step {
	utility := e.Worth(e.buffer, action)
	e.completed[0] = rl.Completion{Decision: e.decisions, Utility: utility}
	e.decisions++
	return rl.Step{
		Observation: e.draw(),
		Truncated:   e.decisions == 50,
		Elapsed:     time.Second,
		Completed:   e.completed[:],
	}
}

// draw leaves at least one good to be had.
func (e *Market) draw() []float32 {
	e.buffer[0] = float32(e.rng.IntN(2))
	sure := e.rng.IntN(e.Size)
	for a := range e.Size {
		own := e.buffer[1+3*a:][:3]
		own[0], own[1], own[2] = 0, e.rng.Float32(), e.rng.Float32()
		if a == sure || e.rng.IntN(3) > 0 {
			own[0] = 1
		}
	}
	return e.buffer
}
