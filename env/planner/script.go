package planner

import (
	"time"

	"gearshift/env"
	"gearshift/router/fleet"
)

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
