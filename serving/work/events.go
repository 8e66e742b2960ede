package work

import (
	"math"
	"sync/atomic"
)

const (
	// eventsRemembered is over how many answers it is smoothed what events hold.
	eventsRemembered = 16
	// eventsCompared is the fewest tokens of an answer that counts: the last one,
	// which is not seen, is one in so many.
	eventsCompared = 16
	// eventsDiffer is from what factor on a replica's events are taken to hold more
	// than was counted in them.
	eventsDiffer = 1.15
	// eventsMost is the most that one answer is believed: one may have tokens that no
	// event carries, such as thoughts that its engine keeps to itself.
	eventsMost = 16
)

// Events is how many tokens a replica's events hold for each that is counted in them: one
// of most engines, more of one that puts several into an event, as far as these are no
// words of their own. Answers that state their usage teach it, and streams that do not use
// it, so that neither they nor their engine seem slower than they are.
type Events struct {
	ratio atomic.Uint64 // as a float64's bits; zero is one
}

// Learn takes in an answer's tokens as it stated them, and as they were counted.
func (e *Events) Learn(stated, counted int) {
	if counted < 1 || stated < eventsCompared {
		return
	}
	for {
		old := e.ratio.Load()
		ratio := decoded(old)
		ratio += (min(eventsMost, float64(stated)/float64(counted)) - ratio) / eventsRemembered
		if e.ratio.CompareAndSwap(old, math.Float64bits(ratio)) {
			return
		}
	}
}

// Tokens is how many there are where so many were counted.
func (e *Events) Tokens(counted int) int {
	if ratio := decoded(e.ratio.Load()); ratio >= eventsDiffer {
		return int(math.Round(float64(counted) * ratio))
	}
	return counted
}

func decoded(bits uint64) float64 {
	if bits == 0 {
		return 1
	}
	return math.Float64frombits(bits)
}
