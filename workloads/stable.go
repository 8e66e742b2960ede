package workloads

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Stable is the paper's stable workload at one rate (LBE-19): Poisson arrivals
// for a fixed time, 40 s in the paper, and then nothing more. The paper sweeps
// the rate and resets in between, so each rate is a workload of its own.
type Stable struct {
	Poisson
	phase time.Duration
}

// NewStable is Poisson arrivals at the rate within [0, phase).
func NewStable(rate float64, phase time.Duration) (Stable, error) {
	poisson, err := NewPoisson(rate)
	if err == nil && phase <= 0 {
		err = fmt.Errorf("phase of %v must be positive", phase)
	}
	return Stable{poisson, phase}, err
}

// Times implements [Process].
func (s Stable) Times(rng *rand.Rand) Times {
	return &stableTimes{poissonTimes{rng: rng, rate: s.rate}, s.phase}
}

type stableTimes struct {
	poissonTimes
	phase time.Duration
}

func (t *stableTimes) Next() (time.Duration, float64, bool) {
	at, rate, ok := t.poissonTimes.Next()
	return at, rate, ok && at < t.phase
}
