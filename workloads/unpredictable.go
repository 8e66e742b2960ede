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
func (U2) Times(rng *rand.Rand) Times {
	present := 0. // before the first
	return counted(rng, func() (rate, requests float64) {
		if present == u2Low || present == 0 && rng.Uint64()&1 == 1 {
			present = u2High
		} else {
			present = u2Low
		}
		return present, u2Requests
	})
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
func (U2Uniform) Times(rng *rand.Rand) Times {
	return counted(rng, func() (rate, requests float64) { return uniform(rng, u2Low, u2High), u2Requests })
}

// U1 is the paper's first unpredictable workload (LBE-20): each segment draws a
// rate, mostly low and rarely very high, and serves a geometric number of
// requests with mean 20 × rate. Endless; the paper takes 10,000 requests, about
// 140 segments.
//
// Segments last 20 s on average whatever their rate, and exponentially, so at
// any moment the rate has the law that segments draw from. The counts have the
// variance of the Markov-modulated Poisson process with these rates: that the
// rate changes at a request adds nothing to the covariance, for the changes come
// at the same pace, one in 20 s, at every rate.
type U1 struct{}

// u1Sojourn is the mean length of a segment in seconds.
const u1Sojourn = 20.0

// band is a share of the segments whose rate is uniform on [lo, hi] per second.
type band struct{ share, lo, hi float64 }

var u1Bands = []band{{0.90, 0.25, 2}, {0.08, 2, 40}, {0.02, 40, 48}}

// MeanRate implements [Process]: 3.5725 requests per second.
func (U1) MeanRate() float64 {
	var mean float64
	for _, b := range u1Bands {
		mean += b.share * (b.lo + b.hi) / 2
	}
	return mean
}

// IDC implements [Process]: 20.9 at 1 s, 173.6 at 10 s, 811 in the limit. The
// rate is redrawn independently, so its autocovariance is Var·e^{−t/20 s}.
func (u U1) IDC(window time.Duration) (float64, bool) {
	var square float64
	for _, b := range u1Bands {
		square += b.share * (b.lo*b.lo + b.lo*b.hi + b.hi*b.hi) / 3
	}
	mean := u.MeanRate()
	excess := 2 * u1Sojourn * (square - mean*mean) / mean
	return modulation(excess, 1/u1Sojourn, window), true
}

// Times implements [Process].
func (U1) Times(rng *rand.Rand) Times {
	return counted(rng, func() (rate, requests float64) {
		b, u := 0, rng.Float64()
		for b < len(u1Bands)-1 && u >= u1Bands[b].share {
			u -= u1Bands[b].share
			b++
		}
		rate = uniform(rng, u1Bands[b].lo, u1Bands[b].hi)
		return rate, u1Sojourn * rate
	})
}
