package workloads

import (
	"math"
	"math/rand/v2"
	"time"
)

// Gamma is a renewal process whose gaps are Gamma distributed: shape 1/c²,
// scale c²/λ for rate λ and coefficient of variation c. c = 1 is Poisson;
// above it requests come in clusters, below it they are spread out.
type Gamma struct{ rate, cv float64 }

// NewGamma is a Gamma renewal process from its rate per second and the
// coefficient of variation of its gaps.
func NewGamma(rate, cv float64) (Gamma, error) {
	err := checkRate(rate)
	if err == nil {
		err = checkCV(cv)
	}
	return Gamma{rate, cv}, err
}

// MeanRate implements [Process].
func (g Gamma) MeanRate() float64 { return g.rate }

// IDC implements [Process]. Of a renewal process the limit alone is simple: c².
func (g Gamma) IDC(window time.Duration) (float64, bool) {
	return limitOnly(g.cv*g.cv, window)
}

// Times implements [Process]. The first gap begins at time zero, and the rate
// reported is the mean: that of the moment depends on the gap so far.
func (g Gamma) Times(rng *rand.Rand) Times {
	shape := 1 / (g.cv * g.cv)
	t := &gammaTimes{rng: rng, rate: g.rate, scale: 1 / (shape * g.rate)}
	if shape < 1 {
		t.boost = 1 / shape
		shape++
	}
	t.d = shape - 1.0/3
	t.c = 1 / math.Sqrt(9*t.d)
	return t
}

// gammaTimes draws gaps by Marsaglia and Tsang, "A simple method for generating
// gamma variables" (2000). A shape a < 1 is drawn as Gamma(a+1)·U^(1/a).
type gammaTimes struct {
	clock
	rng         *rand.Rand
	rate, scale float64
	d, c        float64
	boost       float64 // 1/a, or 0 where a ≥ 1
}

func (t *gammaTimes) Next() (time.Duration, float64, bool) {
	gap := t.scale * t.draw()
	if t.boost > 0 {
		gap *= math.Exp(-t.boost * t.rng.ExpFloat64())
	}
	ok := t.advance(gap)
	return t.now, t.rate, ok
}

func (t *gammaTimes) draw() float64 {
	for {
		x := t.rng.NormFloat64()
		v := 1 + t.c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		u := 1 - t.rng.Float64() // in (0, 1]
		// The first test spares most draws the logarithms.
		if u < 1-0.0331*x*x*x*x || math.Log(u) < 0.5*x*x+t.d*(1-v+math.Log(v)) {
			return t.d * v
		}
	}
}
