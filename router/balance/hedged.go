package balance

import (
	"math"
	"math/rand/v2"
	"time"

	"gearshift/router/signals"
)

// Hedger is a [Chooser] that sends a second copy of a request that is not answered for long.
// The first answer counts, and the other copy is cancelled.
type Hedger interface {
	Chooser
	// Hedge returns after how long without an answer to send the copy of a request that is
	// sent now, and false if none is to be sent.
	Hedge(k *Knowledge, now time.Duration) (after time.Duration, ok bool)
	// Second returns the replica of the copy, another than the first; −1 if there is none, or
	// if too many copies have been sent.
	Second(k *Knowledge, first int, now time.Duration, random *rand.Rand) int
}

// Hedged hedges the requests of another rule (Dean and Barroso, "The tail at scale", 2013).
type Hedged struct {
	Chooser
	// Quantile is the share of answers that come before a copy is sent: the time that this
	// takes is learned, from Start.
	Quantile float64
	Start    time.Duration
	// Most is the share of requests of which copies may be sent.
	Most float64
}

// hedge is what Hedged keeps of a model.
type hedge struct {
	after float64 // nanoseconds
	may   float64 // copies
}

// mostCopies bounds how many copies are saved up.
const mostCopies = 10

// quantileStep is by what factor the learned time changes with an answer, as a logarithm.
const quantileStep = 0.05

// Memory implements [Rememberer]: that of the other rule.
func (h Hedged) Memory(k *Knowledge) any {
	k.hedge = hedge{after: float64(h.Start)}
	if r, ok := h.Chooser.(Rememberer); ok {
		return r.Memory(k)
	}
	return nil
}

// Hedge implements [Hedger].
func (h Hedged) Hedge(k *Knowledge, _ time.Duration) (after time.Duration, ok bool) {
	k.hedge.may = min(mostCopies, k.hedge.may+h.Most)
	return time.Duration(k.hedge.after), len(k.Own) > 1
}

// Second implements [Hedger].
func (h Hedged) Second(k *Knowledge, first int, now time.Duration, random *rand.Rand) int {
	if k.hedge.may < 1 || k.Size() < 2 {
		return -1
	}
	var room [2]int
	second := h.Choose(k, nil, now, random)
	if second == first { // or any other
		both := k.draw(2, random, room[:0])
		if second = both[0]; second == first {
			second = both[1]
		}
	}
	k.hedge.may--
	return second
}

// Answered implements [Learner].
func (h Hedged) Answered(k *Knowledge, replica int, took, now time.Duration) {
	step := h.Quantile
	if float64(took) <= k.hedge.after {
		step--
	}
	k.hedge.after *= math.Exp(quantileStep * step)
	if l, ok := h.Chooser.(Learner); ok {
		l.Answered(k, replica, took, now)
	}
}

// Heard implements [Listener].
func (h Hedged) Heard(k *Knowledge, replica int, c *signals.Counters, by Source, now time.Duration) {
	if l, ok := h.Chooser.(Listener); ok {
		l.Heard(k, replica, c, by, now)
	}
}

// Probed implements [Prober].
func (h Hedged) Probed(k *Knowledge, now time.Duration, random *rand.Rand, buf []int) []int {
	if p, ok := h.Chooser.(Prober); ok {
		return p.Probed(k, now, random, buf)
	}
	return buf
}
