package signals

import (
	"math"
	"sync/atomic"
)

// remembered is over how many values a mean goes, the latest of them more than the earlier ones.
const remembered = 64

// mean is of the latest values. Its zero value has none.
type mean struct{ bits atomic.Uint64 }

func (m *mean) add(v float64) {
	for {
		old := m.bits.Load()
		next := v
		if old != 0 {
			next = math.Float64frombits(old)
			next += (v - next) / remembered
		}
		if m.bits.CompareAndSwap(old, math.Float64bits(max(next, math.SmallestNonzeroFloat64))) {
			return
		}
	}
}

// value returns the mean, or otherwise where there is none.
func (m *mean) value(otherwise float64) float64 {
	if bits := m.bits.Load(); bits != 0 {
		return math.Float64frombits(bits)
	}
	return otherwise
}
