package balance

import (
	"math"
	"math/rand/v2"
	"time"

	"gearshift/router/signals"
)

// Weighted chooses replicas in turn, each as often as its weight has it, by gRPC's client-side
// weighted round robin (proposal A58). The weight is
//
//	rate / (use + errors/rate · Penalty)
//
// of what the host says of itself: the requests per second that it would answer if all its cores
// were busy.
type Weighted struct {
	// Blackout is for how long a replica must have spoken before its weight counts.
	Blackout time.Duration
	// Expiry is after how long of silence the weight counts no longer.
	Expiry time.Duration
	// Update is how often the turns are planned again, 100 ms at least.
	Update time.Duration
	// Penalty is how much errors count.
	Penalty float64
}

// weight is that of a replica.
type weight struct {
	value   float64
	since   time.Duration // it has spoken, without expiring; below zero if it has not
	updated time.Duration
}

// turns are the weights and the plan of a model.
type turns struct {
	weights []weight
	shares  []uint16 // of the largest, by replica; all equal is round robin
	plan    time.Duration
	planned bool
	turn    uint64
	started bool
}

// largest is the share of the replica with the most weight.
const largest = math.MaxUint16

// Memory implements [Rememberer].
func (Weighted) Memory(k *Knowledge) any {
	t := &turns{weights: make([]weight, len(k.Own)), shares: make([]uint16, len(k.Own))}
	for i := range t.weights {
		t.weights[i].since = -1
	}
	return t
}

// Heard implements [Listener].
func (w Weighted) Heard(k *Knowledge, replica int, c *signals.Counters, _ Source, now time.Duration) {
	if !(c.Rate > 0) || !(c.Use > 0) || math.IsInf(c.Rate, 1) || math.IsInf(c.Use, 1) {
		return
	}
	x := &k.memory.(*turns).weights[replica]
	x.value = c.Rate / (c.Use + max(0, c.Errors)/c.Rate*w.Penalty)
	if x.since < 0 || now-x.updated >= w.Expiry {
		x.since = now
	}
	x.updated = now
}

// counts returns the weight, or zero if it does not count at the time.
func (w Weighted) counts(x *weight, now time.Duration) float64 {
	if x.since < 0 || now-x.updated >= w.Expiry || now-x.since < w.Blackout {
		return 0
	}
	return x.value
}

// replan sets the shares. Where fewer than two replicas have weights all get the same; else
// those that have none get the mean of the others.
func (w Weighted) replan(t *turns, now time.Duration) {
	sum, most, have := 0.0, 0.0, 0
	for i := range t.weights {
		if v := w.counts(&t.weights[i], now); v > 0 {
			sum, most, have = sum+v, max(most, v), have+1
		}
	}
	for i := range t.shares {
		t.shares[i] = largest
		if have < 2 {
			continue
		}
		v := w.counts(&t.weights[i], now)
		if v == 0 {
			v = sum / float64(have)
		}
		t.shares[i] = uint16(max(1, math.Round(v/most*largest)))
	}
	t.plan, t.planned = now, true
}

// Polled implements [Chooser]. It asks none.
func (Weighted) Polled(_ *Knowledge, _ time.Duration, _ *rand.Rand, polled []int) []int {
	return polled
}

// Choose implements [Chooser]. It goes round all replicas; one whose share is half of the
// largest is passed over every second time, by gRPC's static stride scheduler.
func (w Weighted) Choose(k *Knowledge, _ []int, now time.Duration, random *rand.Rand) int {
	t := k.memory.(*turns)
	if !t.planned || now-t.plan >= max(w.Update, 100*time.Millisecond) {
		w.replan(t, now)
	}
	if !t.started { // so that clients do not all begin with the same
		t.turn, t.started = uint64(random.Uint32()), true
	}
	n := uint64(len(t.shares))
	for range rounds * n {
		t.turn++
		i, round := int(t.turn%n), t.turn/n
		share := uint64(t.shares[i])
		passed := (share*round+uint64(i)*(largest/2))%largest >= share // its turn has not come up
		if !passed && k.Allowed(i) {
			return i
		}
	}
	return k.Candidate(random.IntN(k.Size()))
}

// rounds is how often Choose goes round before it takes any: a replica with a tiny share may be
// the only one that is up.
const rounds = 8
