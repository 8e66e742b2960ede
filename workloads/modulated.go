package workloads

import (
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
