package balance

import (
	"math/rand/v2"
	"sort"
	"time"
)

// Hardware draws replicas by how fast their hardware is, [Replicas.Power], and chooses the least
// loaded of K of them as [Sampled] does. Where all hardware is alike it is the same.
type Hardware struct{ Sampled }

// Memory implements [Rememberer]: the sums of the power of the replicas up to each.
func (Hardware) Memory(k *Knowledge) any {
	sums, sum := make([]float64, len(k.Own)), 0.0
	for i := range sums {
		power := 1.0
		if k.Power != nil {
			power = k.Power[i]
		}
		sum += power
		sums[i] = sum
	}
	return sums
}

// Polled implements [Chooser].
func (h Hardware) Polled(k *Knowledge, _ time.Duration, random *rand.Rand, polled []int) []int {
	if !h.Poll || h.K < 2 || len(polled) > 0 {
		return polled
	}
	return h.draw(k, random, polled)
}

// Choose implements [Chooser].
func (h Hardware) Choose(k *Knowledge, polled []int, _ time.Duration, random *rand.Rand) int {
	var room [mostDrawn]int
	if len(polled) == 0 {
		polled = h.draw(k, random, room[:0])
	}
	return h.leastLoaded(k, polled, random)
}

// draw appends K distinct replicas that may be chosen, each drawn in proportion to its power
// among those that are left.
func (h Hardware) draw(k *Knowledge, random *rand.Rand, buf []int) []int {
	sums := k.memory.([]float64)
	for n := 0; n < min(h.K, k.Size()); {
		i, ok := h.one(k, sums, random, buf)
		if !ok { // hardly any may be chosen: power matters less than to find them
			return k.draw(h.K, random, buf[:len(buf)-n])
		}
		buf, n = append(buf, i), n+1
	}
	return buf
}

// one draws a replica that is not among the taken.
func (Hardware) one(k *Knowledge, sums []float64, random *rand.Rand, taken []int) (int, bool) {
next:
	for range tries {
		i := min(len(sums)-1, sort.SearchFloat64s(sums, random.Float64()*sums[len(sums)-1]))
		if !k.Allowed(i) {
			continue
		}
		for _, t := range taken {
			if t == i {
				continue next
			}
		}
		return i, true
	}
	return 0, false
}

// tries is how often a replica is drawn that may not be chosen before power is left aside.
const tries = 64
