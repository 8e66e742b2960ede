package workloads

import (
	"math"
	"math/rand/v2"
	"time"
)

// Weibull is a renewal process whose gaps are Weibull distributed: shape k from
// c² = Γ(1+2/k)/Γ(1+1/k)² − 1, scale 1/(λΓ(1+1/k)), for rate λ and coefficient
// of variation c. c = 1 is Poisson.
type Weibull struct{ rate, cv, shape float64 }

// NewWeibull is a Weibull renewal process from its rate per second and the
// coefficient of variation of its gaps.
func NewWeibull(rate, cv float64) (Weibull, error) {
	if err := checkRate(rate); err != nil {
		return Weibull{}, err
	}
	if err := checkCV(cv); err != nil {
		return Weibull{}, err
	}
	return Weibull{rate, cv, weibullShape(cv)}, nil
}

// weibullShape is the shape k with that coefficient of variation, which falls
// as k grows: 430 at k = 0.1, 0.0013 at k = 1000.
func weibullShape(cv float64) float64 {
	lo, hi := math.Log(0.1), math.Log(1000)
	for range 100 {
		middle := (lo + hi) / 2
		if weibullCV2(math.Exp(middle)) > cv*cv {
			lo = middle
		} else {
			hi = middle
		}
	}
	return math.Exp(lo)
}

func weibullCV2(k float64) float64 {
	first, _ := math.Lgamma(1 + 1/k)
	second, _ := math.Lgamma(1 + 2/k)
	return math.Expm1(second - 2*first)
}

// MeanRate implements [Process].
func (w Weibull) MeanRate() float64 { return w.rate }

// IDC implements [Process]. Of a renewal process the limit alone is simple: c².
func (w Weibull) IDC(window time.Duration) (float64, bool) {
	return limitOnly(w.cv*w.cv, window)
}

// Times implements [Process]. The first gap begins at time zero, and the rate
// reported is the mean: that of the moment depends on the gap so far.
func (w Weibull) Times(rng *rand.Rand) Times {
	power := 1 / w.shape
	return &weibullTimes{rng: rng, rate: w.rate, power: power, scale: 1 / (w.rate * math.Gamma(1+power))}
}

type weibullTimes struct {
	clock
	rng                *rand.Rand
	rate, scale, power float64
}

func (t *weibullTimes) Next() (time.Duration, float64, bool) {
	// A power of an exponential draw is a Weibull draw.
	ok := t.advance(t.scale * math.Pow(t.rng.ExpFloat64(), t.power))
	return t.now, t.rate, ok
}
