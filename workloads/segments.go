package workloads

import (
	"math"
	"math/rand/v2"
	"time"
)

// phases yields one phase after the other: a rate per second, possibly zero,
// and how many seconds it lasts. False means that there are no more.
type phases interface {
	next(rng *rand.Rand) (rate, seconds float64, ok bool)
}

// modulated is Poisson arrivals whose rate changes from phase to phase. Poisson
// arrivals have no memory, so each phase begins a new gap.
type modulated struct {
	clock
	rng    *rand.Rand
	phases phases
	rate   float64
	end    clock // of the phase
}

func (m *modulated) Next() (time.Duration, float64, bool) {
	for {
		// With a rate of zero the gap is infinite, and before the first phase
		// the end is the beginning: both go on to the next phase.
		if m.rate > 0 {
			if ok := m.advance(m.rng.ExpFloat64() / m.rate); !ok {
				m.now = Forever
			}
			if m.now < m.end.now {
				return m.now, m.rate, true
			}
		}
		m.clock = m.end
		rate, seconds, ok := m.phases.next(m.rng)
		if !ok || !m.end.advance(seconds) {
			m.rate, m.phases = 0, ended{}
			return m.now, 0, false
		}
		m.rate = rate
	}
}

// ended is phases that are over.
type ended struct{}

func (ended) next(*rand.Rand) (rate, seconds float64, ok bool) { return 0, 0, false }

// segments yields one segment after the other, for ever: a rate per second, and
// the mean of the geometric number (1, 2, …) of requests at that rate.
type segments interface {
	next(rng *rand.Rand) (rate, requests float64)
}

// counted is exponential gaps at a rate that changes after a number of requests.
//
// A geometric number of exponential gaps is exponential again, so in time the
// rate is a Markov chain: a segment lasts requests/rate on average, and given
// the past the next request always comes at the present rate. What sets it apart
// from a Markov-modulated Poisson process is that the rate changes at a request.
type counted struct {
	clock
	rng      *rand.Rand
	segments segments
	rate     float64
	left     int // requests of the segment to come
}

func (c *counted) Next() (time.Duration, float64, bool) {
	if c.left == 0 {
		var requests float64
		c.rate, requests = c.segments.next(c.rng)
		c.left = geometric(c.rng, requests)
	}
	c.left--
	ok := c.advance(c.rng.ExpFloat64() / c.rate)
	return c.now, c.rate, ok
}

// geometric draws from 1, 2, … with that mean, at least 1: an exponential draw
// rounded up.
func geometric(rng *rand.Rand, mean float64) int {
	return 1 + int(-rng.ExpFloat64()/math.Log1p(-1/mean))
}

// uniform draws from [lo, hi).
func uniform(rng *rand.Rand, lo, hi float64) float64 { return lo + (hi-lo)*rng.Float64() }
