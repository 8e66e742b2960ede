package workloads

import (
	"math/rand/v2"
	"time"
)

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
func (U1) Times(rng *rand.Rand) Times { return &counted{rng: rng, segments: u1Segments{}} }

type u1Segments struct{}

func (u1Segments) next(rng *rand.Rand) (rate, requests float64) {
	b, u := 0, rng.Float64()
	for b < len(u1Bands)-1 && u >= u1Bands[b].share {
		u -= u1Bands[b].share
		b++
	}
	rate = uniform(rng, u1Bands[b].lo, u1Bands[b].hi)
	return rate, u1Sojourn * rate
}
