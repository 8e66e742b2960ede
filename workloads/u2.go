package workloads

import (
	"math"
	"math/rand/v2"
	"time"
)

// The paper's second unpredictable workload (LBE-21): the rate "fluctuates
// between 1 and 48 requests per second", and each rate serves a geometric number
// of requests with mean 500.
const u2Low, u2High, u2Requests = 1.0, 48.0, 500.0

// U2 is LBE-21 read as a switch between the two rates, which alone agrees with
// the paper's Table 4. It begins with either. Endless; the paper takes 10,000
// requests, about 20 segments, so results need many seeds.
type U2 struct{}

// MeanRate implements [Process]: 1.96 requests per second. Each rate serves as
// many requests, so the mean over time is the harmonic one.
func (U2) MeanRate() float64 { return 2 / (1/u2Low + 1/u2High) }

// IDC implements [Process]: 22.8 at 1 s, 167.8 at 10 s, 461 in the limit, those
// of the Markov-modulated Poisson process that leaves rate λ at λ/500 per
// second: that the rate changes at a request adds nothing to the covariance, for
// as many requests change it up as down. Valid away from the beginning, which is
// at the start of a segment and not at a random moment.
func (U2) IDC(window time.Duration) (float64, bool) {
	up, down := u2Low/u2Requests, u2High/u2Requests
	r := up + down
	excess := 2 * (u2High - u2Low) * (u2High - u2Low) * up * down / (r * r * (u2Low*down + u2High*up))
	return modulation(excess, r, window), true
}

// Times implements [Process].
func (U2) Times(rng *rand.Rand) Times { return &counted{rng: rng, segments: new(u2Switch)} }

type u2Switch struct{ rate float64 } // 0 before the first

func (s *u2Switch) next(rng *rand.Rand) (rate, requests float64) {
	if s.rate == u2Low || s.rate == 0 && rng.Uint64()&1 == 1 {
		s.rate = u2High
	} else {
		s.rate = u2Low
	}
	return s.rate, u2Requests
}

// U2Uniform is LBE-21 read as a rate uniform on [1, 48], redrawn for each
// segment. Endless.
type U2Uniform struct{}

// MeanRate implements [Process]: 12.14 requests per second. A segment lasts
// 500/λ on average, so the mean over time is the harmonic one, 1/E[1/λ].
func (U2Uniform) MeanRate() float64 { return (u2High - u2Low) / math.Log(u2High/u2Low) }

// IDC implements [Process]. Only the limit is known, from the segments as cycles
// of a renewal-reward process, E[(N − mean·D)²]/E[N] for N requests in D
// seconds: 1 + 2·500·(mean²·E[1/λ²] − 1), and E[1/λ²] on [a, b] is 1/(ab).
func (u U2Uniform) IDC(window time.Duration) (float64, bool) {
	mean := u.MeanRate()
	return limitOnly(1+2*u2Requests*(mean*mean/(u2Low*u2High)-1), window)
}

// Times implements [Process].
func (U2Uniform) Times(rng *rand.Rand) Times { return &counted{rng: rng, segments: u2Redraw{}} }

type u2Redraw struct{}

func (u2Redraw) next(rng *rand.Rand) (rate, requests float64) {
	return uniform(rng, u2Low, u2High), u2Requests
}
