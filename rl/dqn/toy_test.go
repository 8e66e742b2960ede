package dqn

import (
	"math/rand/v2"
	"testing"

	"gearshift/rl"
	"gearshift/rl/rltest"
)

func newForKit(cfg rl.Config, inputs, actions int, rng *rand.Rand) (rl.Learner, error) {
	return New(cfg, inputs, actions, rng)
}

func TestLearner(t *testing.T) { rltest.TestLearner(t, newForKit) }

func TestDuelingLearner(t *testing.T) {
	rltest.TestLearner(t, func(cfg rl.Config, inputs, actions int, rng *rand.Rand) (rl.Learner, error) {
		cfg.Dueling = true
		return New(cfg, inputs, actions, rng)
	})
}
