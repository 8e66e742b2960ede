package drift_test

import (
	"math"
	"testing"
	"time"

	"gearshift/env/engine"
	"gearshift/router/drift"
	"gearshift/router/profile"
)

// Timings have the load that explains them: by the true profile, an answer takes about as long as it took.
func TestTimings(t *testing.T) {
	for _, scheduler := range []string{engine.PrefillFirst, engine.ChunkedPrefill} {
		b := newTimedBench(t, scheduler)
		b.engines(t, scheduler, 1)
		b.run(150, [2]float64{4, 1}, 0.8)
		streams, whole := 0, 0
		for _, a := range b.timed {
			if a.Whole {
				whole++
			} else {
				streams++
			}
			p := []*profile.Profile{&quick, &heavy}[a.Replica]
			n := int(math.Round(a.During.Sequences))
			ms, _ := p.Time(max(1, n), max(1, n), int(a.During.Context), a.During.Neighbours)
			if took := a.Decode.Seconds() * 1000 / float64(a.Tokens); a.Tokens > 30 && took < 0.7*ms {
				t.Errorf("%s: %.1f ms per token, and a step of the mean load takes %.1f: %+v", scheduler, took, ms, a)
			}
		}
		if streams < 150 || whole < 30 {
			t.Errorf("%s: %d streams and %d answers in one piece were timed", scheduler, streams, whole)
		}
	}
}

// A request that leaves before its first token no longer waits.
func TestAbandonedPromptsDoNotWait(t *testing.T) {
	b := newTimedBench(t, engine.PrefillFirst)
	var left, stays drift.Stay
	b.Place(&left, 0, 0, 100)
	b.Leave(&left, time.Second, 0, false)
	b.Place(&stays, 0, time.Second, 100)
	b.Enter(&stays, 0, 2*time.Second, 100, 1, true)
	b.Advance(&stays, 3*time.Second, 100, 20)
	b.Leave(&stays, 3*time.Second, 20, true)
	if len(b.timed) != 1 || b.timed[0].Ahead != 0 || b.timed[0].First != time.Second || b.timed[0].Tokens != 19 {
		t.Errorf("%+v", b.timed)
	}
}

// newTimedBench is a bench that keeps timings.
func newTimedBench(t testing.TB, scheduler string) *bench {
	b := newBench(t, scheduler)
	c := b.config
	c.Timed = func(a *drift.Timing) { b.timed = append(b.timed, *a) }
	b.Monitor = drift.New(c)
	return b
}
