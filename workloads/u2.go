package workloads

import (
	"math"
	"math/rand/v2"
	"time"
)

// The paper's second unpredictable workload (LBE-21): the rate "fluctuates
// between 1 and 48 requests per second" and each rate serves a geometric number
// of requests with mean 500.
const u2Low, u2High, u2Requests = 1.0, 48.0, 500.0

// NewU2 is LBE-21 read as a switch between the two rates, which alone agrees
// with the paper's Table 4: 1.96 requests per second, gap CV 1.69. It begins
// with either rate, at the start of a phase. Endless; the paper takes 10,000
// requests, about 20 phases, so results need many seeds.
//
// It is a two-state [MMPP]. A phase ends at rate λ/500, so that the number of
// its requests is geometric (from zero) with mean 500, as in [U1].
func NewU2() *MMPP {
	down, up := u2High/u2Requests, u2Low/u2Requests
	m, err := NewMMPP([][]float64{{-up, up}, {down, -down}}, []float64{u2Low, u2High})
	if err != nil {
		panic("workloads: the constants of U2 are not an MMPP: " + err.Error())
	}
	m.start = []float64{0.5, 0.5}
	return m
}

// U2Uniform is LBE-21 read as a rate uniform on [1, 48], redrawn for each phase.
type U2Uniform struct{}

// MeanRate implements [Process]: 12.14 requests per second. A phase lasts 500/λ
// on average, so the mean over time is the harmonic one, 1/E[1/λ].
func (U2Uniform) MeanRate() float64 { return (u2High - u2Low) / math.Log(u2High/u2Low) }

// IDC implements [Process]. Only the limit is known, from the phases as cycles
// of a renewal-reward process: 1 + E[(λ−mean)²D²]/E[λD] with D the duration of
// a phase, exponential with mean 500/λ. E[1/λ²] on [a, b] is 1/(ab).
func (u U2Uniform) IDC(window time.Duration) (float64, bool) {
	mean := u.MeanRate()
	return limitOnly(1+2*u2Requests*(mean*mean/(u2Low*u2High)-1), window)
}

// Times implements [Process].
func (U2Uniform) Times(rng *rand.Rand) Times {
	return &modulated{rng: rng, phases: u2Phases{}}
}

type u2Phases struct{}

func (u2Phases) next(rng *rand.Rand) (rate, seconds float64, ok bool) {
	rate = uniform(rng, u2Low, u2High)
	return rate, u2Requests / rate * rng.ExpFloat64(), true
}
