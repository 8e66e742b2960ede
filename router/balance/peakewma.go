package balance

import (
	"math"
	"math/rand/v2"
	"time"
)

// PeakEWMA draws K replicas and chooses the one with the least cost: the response time that the
// client has seen there, times its own requests in flight, the new one included. A longer
// response than expected counts at once, shorter ones are averaged in over time, and where
// nothing is answered the estimate decays, so that a replica that was slow is tried again
// (Finagle, linkerd).
type PeakEWMA struct {
	K int
	// Decay is over what time the estimate forgets: in it, to 1/e.
	Decay time.Duration
	// Start is the estimate of a replica that has not answered yet.
	Start time.Duration
}

// peak is what a client estimates of a replica.
type peak struct {
	took float64 // nanoseconds
	at   time.Duration
}

// Memory implements [Rememberer].
func (p PeakEWMA) Memory(k *Knowledge) any {
	list := make([]peak, len(k.Own))
	for i := range list {
		list[i].took = float64(p.Start)
	}
	return list
}

// Polled implements [Chooser]. It asks none.
func (PeakEWMA) Polled(_ *Knowledge, _ time.Duration, _ *rand.Rand, polled []int) []int {
	return polled
}

// Choose implements [Chooser].
func (p PeakEWMA) Choose(k *Knowledge, _ []int, now time.Duration, random *rand.Rand) int {
	var room [mostDrawn]int
	peaks := k.memory.([]peak)
	return least(k.draw(p.K, random, room[:0]), random, func(i int) float64 {
		return p.decayed(&peaks[i], now) * float64(k.Own[i]+1)
	})
}

// decayed is the estimate as it is now.
func (p PeakEWMA) decayed(x *peak, now time.Duration) float64 {
	return x.took * math.Exp(-float64(max(0, now-x.at))/float64(p.Decay))
}

// Answered implements [Learner].
func (p PeakEWMA) Answered(k *Knowledge, replica int, took, now time.Duration) {
	x := &k.memory.([]peak)[replica]
	if t := float64(took); t > x.took {
		x.took = t
	} else {
		old := math.Exp(-float64(max(0, now-x.at)) / float64(p.Decay))
		x.took = x.took*old + t*(1-old)
	}
	x.at = now
}

// mostDrawn is how many replicas a rule draws at most.
const mostDrawn = 8

// least is the replica of the list with the least cost; any of equals.
func least(list []int, random *rand.Rand, cost func(replica int) float64) int {
	best, lowest, ties := list[0], cost(list[0]), 1
	for _, i := range list[1:] {
		switch c := cost(i); {
		case c < lowest:
			best, lowest, ties = i, c, 1
		case c == lowest:
			if ties++; random.IntN(ties) == 0 {
				best = i
			}
		}
	}
	return best
}
