package workloads

import (
	"math/rand/v2"
	"time"
)

// Poisson is arrival without memory at a fixed rate.
type Poisson struct{ rate float64 }

// NewPoisson is a Poisson process of so many requests per second.
func NewPoisson(rate float64) (Poisson, error) {
	return Poisson{rate}, checkRate(rate)
}

// MeanRate implements [Process].
func (p Poisson) MeanRate() float64 { return p.rate }

// IDC implements [Process]: 1 at every window.
func (p Poisson) IDC(time.Duration) (float64, bool) { return 1, true }

// Times implements [Process].
func (p Poisson) Times(rng *rand.Rand) Times { return &poissonTimes{rng: rng, rate: p.rate} }

type poissonTimes struct {
	clock
	rng  *rand.Rand
	rate float64
}

func (t *poissonTimes) Next() (time.Duration, float64, bool) {
	ok := t.advance(t.rng.ExpFloat64() / t.rate)
	return t.now, t.rate, ok
}
