package informed_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"gearshift/router/signals"
	"gearshift/serving/engines/informed"
)

func TestReplicasAreAskedBeforeTheChoice(t *testing.T) {
	withRig(t, "sampled:2", func(c *informed.Config) { c.Source = informed.Probe }, func(r *rig) {
		for i, requests := range []int{8, 1, 8} {
			r.engines[i].set(requests, time.Millisecond, http.StatusOK)
		}
		began := r.clock()
		for n := range uint64(50) {
			if !r.Before(r.t.Context(), 0, n*0x9e3779b97f4a7c15) {
				t.Fatal("no replica is asked")
			}
		}
		if took := r.clock() - began; took != 50*time.Millisecond {
			t.Errorf("50 choices waited %v for answers that take 1 ms", took)
		}
		all := 0
		for _, e := range r.engines {
			all += e.questions()
		}
		if all != 100 {
			t.Errorf("%d questions for 50 choices of two", all)
		}
	})
}

// A replica that does not answer in time costs no more than the timeout, and the others of its
// model stand in for what it would say.
func TestASlowReplicaIsWaitedForBriefly(t *testing.T) {
	withRig(t, "sampled:3", func(c *informed.Config) { c.Source = informed.Probe }, func(r *rig) {
		r.engines[0].set(4, time.Millisecond, http.StatusOK)
		r.engines[1].set(2, time.Hour, http.StatusOK)
		r.engines[2].set(6, 0, http.StatusOK)
		began := r.clock()
		r.Before(r.t.Context(), 0, 1)
		if took := r.clock() - began; took != 5*time.Millisecond {
			t.Errorf("the choice waited %v, want the timeout of 5 ms", took)
		}
		if k := r.Known(1); k.Source != signals.StandIn || k.Counters.Model != 5 {
			t.Errorf("of the slow one %+v is known", k)
		}
		r.Before(r.t.Context(), 0, 2)
		if r.engines[1].questions() != 1 {
			t.Errorf("the slow one was asked %d times at once", r.engines[1].questions())
		}
		time.Sleep(2 * time.Second) // the question has been given up
		r.engines[1].set(0, 0, 0)
		r.Before(r.t.Context(), 0, 3)
		if k := r.Known(1); k.Source != signals.StandIn {
			t.Errorf("of one that refuses connections %+v is known", k)
		}
	})
}

// However often a rule wants to ask, there are no more questions than the configuration allows.
func TestQuestionsAreBounded(t *testing.T) {
	for name, probes := range map[string]float64{"prequal": 1.5, "probing": 0.25, "sampled:3": 0.5} {
		withRig(t, name, func(c *informed.Config) { c.Source, c.Probes = informed.Probe, probes }, func(r *rig) {
			const requests = 400
			for n := range uint64(requests) {
				r.says(int(n%3), int(n%17)) // so that what is known is worth checking
				r.Before(r.t.Context(), 0, n*0x9e3779b97f4a7c15)
				r.picks(1)
				r.Beside(0, n)
				time.Sleep(20 * time.Millisecond)
			}
			asked := 0
			for _, e := range r.engines {
				asked += e.questions()
			}
			if most := probes*requests + 9; float64(asked) > most || float64(asked) < 0.5*probes*requests {
				t.Errorf("%s: %d questions for %d requests, of at most %v for each", name, asked, requests, probes)
			}
		})
	}
}

// Answers to probes fill the pool, from which the least loaded is chosen.
func TestPrequalProbesBesideRequests(t *testing.T) {
	withRig(t, "prequal", nil, func(r *rig) {
		for i, requests := range []int{30, 1, 30} {
			r.engines[i].set(requests, time.Millisecond, http.StatusOK)
		}
		var got [3]int
		for n := range uint64(300) {
			began := r.clock()
			r.Before(r.t.Context(), 0, n)
			r.Beside(0, n*0x9e3779b97f4a7c15)
			if r.clock() != began {
				t.Fatal("a probe was waited for")
			}
			time.Sleep(5 * time.Millisecond)
			if c := r.picks(1); n >= 50 {
				got[0], got[1], got[2] = got[0]+c[0], got[1]+c[1], got[2]+c[2]
			}
		}
		if got[1] < 200 {
			t.Errorf("the replicas with 30, 1 and 30 requests get %v of 250", got)
		}
	})
}

func TestAServerWithoutThePageIsLeftAlone(t *testing.T) {
	withRig(t, "sampled:3", func(c *informed.Config) { c.Source = informed.Probe }, func(r *rig) {
		r.engines[1].set(0, 0, http.StatusNotFound)
		for n := range uint64(20) {
			r.Before(r.t.Context(), 0, n)
		}
		if r.engines[1].questions() != 1 {
			t.Errorf("a server that has no such page was asked %d times", r.engines[1].questions())
		}
		time.Sleep(2 * time.Minute)
		r.Before(r.t.Context(), 0, 99)
		if r.engines[1].questions() != 2 {
			t.Errorf("two minutes later it was asked %d times", r.engines[1].questions())
		}
		r.lacksMu.Lock()
		defer r.lacksMu.Unlock()
		if len(r.lacking) != 1 || r.lacking[0] != 1 {
			t.Errorf("replicas %v are said to lack the page, want 1, once", r.lacking)
		}
	})
}

func TestTheClientThatLeavesIsNotWaitedFor(t *testing.T) {
	withRig(t, "sampled:3", func(c *informed.Config) { c.Source, c.ProbeTimeout = informed.Probe, time.Second }, func(r *rig) {
		r.engines[1].set(0, 500*time.Millisecond, http.StatusOK)
		ctx, leave := context.WithCancel(r.t.Context())
		time.AfterFunc(10*time.Millisecond, leave)
		began := r.clock()
		r.Before(ctx, 0, 1)
		if took := r.clock() - began; took != 10*time.Millisecond {
			t.Errorf("the choice waited %v for a client that left after 10 ms", took)
		}
	})
}
