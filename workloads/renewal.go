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
