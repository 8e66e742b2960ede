package workloads

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Gamma is a renewal process whose gaps are Gamma distributed: shape 1/c²,
// scale c²/λ for rate λ and coefficient of variation c. c = 1 is Poisson;
// above it requests come in clusters, below it they are spread out.
type Gamma struct{ rate, cv float64 }

// NewGamma returns a Gamma renewal process from its rate per second and the
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
//
// A shape a < 1 is drawn as Gamma(a+1)·U^(1/a).
func (g Gamma) Times(rng *rand.Rand) Times {
	shape := 1 / (g.cv * g.cv)
	scale, boost := 1/(shape*g.rate), 0.
	if shape < 1 {
		boost = 1 / shape
		shape++
	}
	return renewal(g.rate, func() float64 {
		gap := scale * gamma(rng, shape)
		if boost > 0 {
			gap *= math.Exp(-boost * rng.ExpFloat64())
		}
		return gap
	})
}

// gamma draws from Gamma(shape), of at least 1, by Marsaglia and Tsang, "A simple method for
// generating gamma variables" (2000).
func gamma(rng *rand.Rand, shape float64) float64 {
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		u := 1 - rng.Float64() // in (0, 1]
		// The first test spares most draws the logarithms.
		if u < 1-0.0331*x*x*x*x || math.Log(u) < 0.5*x*x+d*(1-v+math.Log(v)) {
			return d * v
		}
	}
}

// Weibull is a renewal process whose gaps are Weibull distributed: shape k from
// c² = Γ(1+2/k)/Γ(1+1/k)² − 1, scale 1/(λΓ(1+1/k)), for rate λ and coefficient
// of variation c. c = 1 is Poisson.
type Weibull struct{ rate, cv, shape float64 }

// NewWeibull returns a Weibull renewal process from its rate per second and the
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

// weibullShape returns the shape k with that coefficient of variation, which falls
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
	scale := 1 / (w.rate * math.Gamma(1+power))
	// A power of an exponential draw is a Weibull draw.
	return renewal(w.rate, func() float64 { return scale * math.Pow(rng.ExpFloat64(), power) })
}

// Poisson is arrival without memory at a fixed rate.
type Poisson struct{ rate float64 }

// NewPoisson returns a Poisson process of so many requests per second.
func NewPoisson(rate float64) (Poisson, error) {
	return Poisson{rate}, checkRate(rate)
}

// MeanRate implements [Process].
func (p Poisson) MeanRate() float64 { return p.rate }

// IDC implements [Process]: 1 at every window.
func (p Poisson) IDC(time.Duration) (float64, bool) { return 1, true }

// Times implements [Process].
func (p Poisson) Times(rng *rand.Rand) Times {
	return renewal(p.rate, func() float64 { return rng.ExpFloat64() / p.rate })
}

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
	next := s.Poisson.Times(rng)
	return func() (time.Duration, float64, bool) {
		at, rate, ok := next()
		return at, rate, ok && at < s.phase
	}
}
