package balance

import (
	"math/rand/v2"
	"time"

	"gearshift/router/signals"
)

// Sampled draws replicas at random, each set equally likely, and chooses the least loaded;
// any of equals. One is a random choice, two are the power of two choices (META-3).
type Sampled struct {
	// K is how many are drawn; all if there are no more.
	K       int
	Counter signals.Counter
	// Poll asks the drawn ones for their counters first. Without, the choice is by what they
	// have said with their answers to the client's earlier requests (META-4).
	Poll bool
	// Part is the share of requests before which they are asked, if it is not zero. The others
	// are chosen by what was said.
	Part float64
}

// Polled implements [Chooser].
func (s Sampled) Polled(k *Knowledge, _ time.Duration, random *rand.Rand, polled []int) []int {
	if !s.Poll || s.K < 2 || len(polled) > 0 || s.Part > 0 && random.Float64() >= s.Part {
		return polled
	}
	return k.draw(s.K, random, polled)
}

// Choose implements [Chooser].
func (s Sampled) Choose(k *Knowledge, polled []int, _ time.Duration, random *rand.Rand) int {
	var room [mostDrawn]int
	drawn := polled
	if len(drawn) == 0 {
		drawn = k.draw(s.K, random, room[:0])
	}
	return s.leastLoaded(k, drawn, random)
}

// leastLoaded is the least loaded of the replicas; any of equals.
func (s Sampled) leastLoaded(k *Knowledge, drawn []int, random *rand.Rand) int {
	best, ties := drawn[0], 1
	for _, i := range drawn[1:] {
		switch order := s.Counter.Compare(&k.Said[i], &k.Said[best]); {
		case order < 0:
			best, ties = i, 1
		case order == 0:
			if ties++; random.IntN(ties) == 0 {
				best = i
			}
		}
	}
	return best
}
