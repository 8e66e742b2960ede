package workloads

import (
	"math/rand/v2"
	"time"
)

// U1 is the paper's first unpredictable workload (LBE-20): each phase draws a
// rate, mostly low and rarely very high, and serves a geometric number of
// requests with mean 20 × rate. Endless; the paper takes 10,000 requests.
//
// A phase here lasts an exponential time of mean 20 s with Poisson arrivals in
// it. That is the same thing said in time: whether the next event is another
// request or the end of the phase is a coin with odds rate : 1/20, so the number
// of requests is geometric (from zero) with mean 20 × rate. It also makes U1 a
// Markov-modulated Poisson process whose rate is redrawn, hence the closed forms.
type U1 struct{}

// u1Sojourn is the mean length of a phase in seconds.
const u1Sojourn = 20.0

// band is a share of the phases whose rate is uniform on [lo, hi] per second.
type band struct{ share, lo, hi float64 }

var u1Bands = []band{{0.90, 0.25, 2}, {0.08, 2, 40}, {0.02, 40, 48}}

// MeanRate implements [Process]: 3.5725 requests per second. Phases last the
// same whatever their rate, so it is the plain mean of the rates.
func (U1) MeanRate() float64 {
	var mean float64
	for _, b := range u1Bands {
		mean += b.share * (b.lo + b.hi) / 2
	}
	return mean
}

// IDC implements [Process]: 20.9 at 1 s, 173.6 at 10 s, 811 in the limit. The
// rate has autocovariance Var·e^{−t/20 s}, for it is redrawn independently.
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
func (U1) Times(rng *rand.Rand) Times { return &modulated{rng: rng, phases: u1Phases{}} }

type u1Phases struct{}

func (u1Phases) next(rng *rand.Rand) (rate, seconds float64, ok bool) {
	b, u := 0, rng.Float64()
	for b < len(u1Bands)-1 && u >= u1Bands[b].share {
		u -= u1Bands[b].share
		b++
	}
	return uniform(rng, u1Bands[b].lo, u1Bands[b].hi), u1Sojourn * rng.ExpFloat64(), true
}

// uniform draws from [lo, hi).
func uniform(rng *rand.Rand, lo, hi float64) float64 { return lo + (hi-lo)*rng.Float64() }
