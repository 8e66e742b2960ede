package serving

import (
	"math"
	"sync/atomic"
)

const (
	// eventsRemembered is over how many answers it is smoothed what events hold.
	eventsRemembered = 16
	// eventsCompared is the fewest tokens of an answer that tells: the last one, that
	// nobody sees, is one in so many.
	eventsCompared = 16
	// eventsDiffer is from what factor on a replica's events are taken to hold more
	// than was counted in them.
	eventsDiffer = 1.15
	// eventsMost is the most that one answer is believed: one may have tokens that no
	// event carries, such as thoughts that its engine keeps to itself.
	eventsMost = 16
)

// events is how many tokens a replica's events hold for each that is counted in them: one
// of most engines, more of one that puts several into an event, as far as these are no
// words of their own. Answers that state their usage tell, and streams that do not go
// by it, so that neither they nor their engine seem slower than they are.
type events struct {
	ratio atomic.Uint64 // as a float64's bits; zero is one
}

// learn takes in an answer's tokens as it stated them, and as they were counted.
func (e *events) learn(stated, counted int) {
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

// tokens is how many there are where so many were counted.
func (e *events) tokens(counted int) int {
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

// tokens is how many of the answer's have come, as far as can be told.
func (d *dispatch) tokens(a *answer) int {
	if !a.events || a.meter.Stated() {
		return a.meter.Tokens()
	}
	return d.adapter.events[a.replica].tokens(a.meter.Counted())
}
