package env_test

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/envtest"
	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/profile"
	"gearshift/workloads"
)

// served is twoByTwo with a queue and a gate, at many times what it can answer in time.
func served(t *testing.T, rate float64) env.Config {
	c := twoByTwo(t)
	c.Forecaster = profile.NewForecaster(c.Profiles)
	c.AsServed = &env.AsServed{
		Gate:   router.AdmissionRule{DeadlineShare: 0.97, KV: 0.9, Output: 150, Sequences: 16, Profiles: c.Profiles},
		Limits: router.Limits{MaxQueue: 20, MaxWait: 5 * time.Second, WaitShare: 0.05, Output: 150, RetryAfter: time.Second, MaxRetryAfter: time.Minute},
	}
	c.Open = func(seed uint64) (workloads.Stream, error) { return poisson(seed, rate, 400), nil }
	return c
}

// episode plays a policy that goes by nothing, and returns all outcomes.
func episode(t *testing.T, c env.Config, seed uint64) (all []env.Outcome) {
	t.Helper()
	e := make2(t, c)
	if _, err := e.Reset(seed); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 3))
	for {
		step, err := e.Step(rng.IntN(2))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, step.Info.Outcomes...)
		if step.Terminated {
			return all
		}
	}
}

// Where there always is room, an episode as served is the same as any other.
func TestAsServedWithRoomIsTheSame(t *testing.T) {
	for seed := range uint64(3) {
		c := served(t, 12)
		c.AsServed.Gate = nil
		got := episode(t, c, seed)
		c.AsServed = nil
		want := episode(t, c, seed)
		if len(got) != len(want) {
			t.Fatalf("%d outcomes, want %d", len(got), len(want))
		}
		for i := range want {
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Fatalf("seed %d, outcome %d: %+v, want %+v", seed, i, got[i], want[i])
			}
		}
	}
}

// Under overload each request is answered or refused, once; those that are refused have
// waited as long as they may, or come where too many wait already.
func TestAsServedUnderOverload(t *testing.T) {
	c := served(t, 60)
	outcomes := episode(t, c, 1)
	seen := map[uint64]bool{}
	reasons := map[string]int{}
	var begun, waited, degraded int
	var last time.Duration
	for _, o := range outcomes {
		if seen[o.Request.ID] {
			t.Fatalf("request %d ended twice", o.Request.ID)
		}
		seen[o.Request.ID] = true
		if o.Finished < last {
			t.Fatalf("request %d ended at %v, after one at %v", o.Request.ID, o.Finished, last)
		}
		last = o.Finished
		patience := 301 * time.Millisecond // 0.05 of 150 tokens at 40 ms, and the grain of timers
		if o.Waited < 0 || o.Waited > patience {
			t.Errorf("request %d waited %v", o.Request.ID, o.Waited)
		}
		if o.Refused != "" {
			reasons[o.Refused]++
			if o.Decision != -1 || o.Utility != 0 || o.Met || o.Finished-o.Request.Arrival != o.Waited {
				t.Errorf("refused: %+v", o)
			}
			continue
		}
		begun++
		if o.Waited > 0 {
			waited++
		}
		if o.Degraded {
			degraded++
		}
	}
	if len(outcomes) != 400 || begun < 50 || reasons[router.RefusedLate] < 50 || waited == 0 || degraded == 0 {
		t.Errorf("%d outcomes, %d begun, %d waited, %d degraded, refused %v", len(outcomes), begun, waited, degraded, reasons)
	}
	again := episode(t, c, 1)
	for i := range outcomes {
		if !reflect.DeepEqual(again[i], outcomes[i]) {
			t.Fatalf("outcome %d of the same seed differs", i)
		}
	}
	c.AsServed = nil
	var all, with float64
	for _, o := range episode(t, c, 1) {
		all += o.Utility
	}
	for _, o := range outcomes {
		with += o.Utility
	}
	if with <= all {
		t.Errorf("utility %.1f with a queue and a gate, %.1f without", with, all)
	}
}

// A queue of no length refuses at once; one that is full displaces nobody of the same
// tenant.
func TestAsServedWithoutAQueue(t *testing.T) {
	c := served(t, 60)
	c.AsServed.Limits.MaxQueue = 0
	for _, o := range episode(t, c, 1) {
		if o.Waited != 0 {
			t.Fatalf("request %d waits: %+v", o.Request.ID, o)
		}
	}
	c.AsServed.Limits.MaxQueue = 1
	var full bool
	for _, o := range episode(t, c, 1) {
		full = full || o.Refused == router.RefusedFull
	}
	if !full {
		t.Error("a queue of one request is never full")
	}
}

// Places bound what is begun without a gate, and a host that is lost while all wait
// leaves nobody behind.
func TestAsServedWithPlacesAndALoss(t *testing.T) {
	c := served(t, 30)
	c.AsServed.Gate = nil
	table := *c.Table
	replicas := append([]fleet.Replica(nil), table.Replicas...)
	for i := range replicas {
		replicas[i].Limit = 2
	}
	limited, err := fleet.NewTable(table.Tasks, table.Variants, table.Hosts, replicas)
	if err != nil {
		t.Fatal(err)
	}
	c.Table, c.Encoder = limited, nil
	c.Losses = []env.HostLoss{{Host: 1, From: 3 * time.Second, To: 6 * time.Second}}
	e := make2(t, c)
	if _, err := e.Reset(1); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for over := false; !over; {
		action := 0
		if !e.View().VariantAvailable(action) {
			action = 1
		}
		step, err := e.Step(action)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range step.Info.Outcomes {
			switch {
			case o.Failed:
				counts["failed"]++
			case o.Refused != "":
				counts[o.Refused]++
			default:
				counts["answered"]++
			}
		}
		over = step.Terminated
	}
	if sum := counts["failed"] + counts["answered"] + counts[router.RefusedSaturated]; sum != 400 || counts["failed"] == 0 || counts[router.RefusedSaturated] == 0 {
		t.Errorf("outcomes %v", counts)
	}
}

// The contract of environments holds as served.
func TestContractAsServed(t *testing.T) {
	for _, limit := range []int{0, 60} {
		c := served(t, 60)
		c.Limit = limit
		if err := envtest.Check(make2(t, c), 11, 1000); err != nil {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}
