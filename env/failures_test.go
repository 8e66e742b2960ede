package env_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/engine"
	"gearshift/env/envtest"
	"gearshift/router/fleet"
	"gearshift/workloads"
)

// With hosts lost and back, the environment keeps its contract: every request
// ends once, the same seed repeats, and the simulator's invariants hold.
func TestContractWithLosses(t *testing.T) {
	for _, scheduler := range []string{engine.PrefillFirst, engine.ChunkedPrefill} {
		for _, limit := range []int{0, 150} {
			c := twoByTwo(t)
			c.Engine.Scheduler, c.Limit = scheduler, limit
			c.Losses = []env.HostLoss{
				{Host: 1, From: 12 * time.Second, To: 15 * time.Second},
				{Host: 0, From: 3 * time.Second, To: 8 * time.Second},
				{Host: 0, From: 20 * time.Second},
			}
			if err := envtest.Check(make2(t, c), 11, 1000); err != nil {
				t.Errorf("%s, limit %d: %v", scheduler, limit, err)
			}
		}
	}
}

// playLosses plays the larger variant wherever it is up, and calls see at each
// decision.
func playLosses(t *testing.T, c env.Config, see func(e *env.Environment)) (all []env.Outcome) {
	t.Helper()
	e := make2(t, c)
	if _, err := e.Reset(5); err != nil {
		t.Fatal(err)
	}
	for {
		see(e)
		step, err := e.Step(1)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, step.Info.Outcomes...)
		if step.Terminated || step.Truncated {
			return all
		}
	}
}

// What is on the host at the loss fails there and then, and nothing else does.
// Before it, the episode is the one without a loss.
func TestLossFailsWhatRunsThere(t *testing.T) {
	c := twoByTwo(t)
	ignore := func(*env.Environment) {}
	calm := playLosses(t, c, ignore)
	from, to := 10*time.Second, 14*time.Second
	c.Losses = []env.HostLoss{{Host: 1, From: from, To: to}}
	all := playLosses(t, c, ignore)
	if len(all) != len(calm) {
		t.Fatalf("%d requests ended, %d without the loss", len(all), len(calm))
	}
	var failed int
	for i, o := range all {
		host := c.Table.Replicas[o.Replica].Host
		running := host == 1 && o.Request.Arrival < from && o.Finished >= from
		if o.Failed != running {
			t.Errorf("decision %d on host %d from %v to %v: failed %t", o.Decision, host, o.Request.Arrival, o.Finished, o.Failed)
		}
		if o.Failed {
			failed++
			if o.Finished != from || o.Utility != 0 || o.Met || o.FirstToken > from {
				t.Errorf("failed: %+v", o)
			}
		}
		if o.Finished < from && fmt.Sprint(o) != fmt.Sprint(calm[i]) {
			t.Errorf("before the loss %+v, without it %+v", o, calm[i])
		}
		if o.Request.Arrival >= from && o.Request.Arrival < to && host == 1 {
			t.Errorf("decision %d at %v went to the lost host", o.Decision, o.Request.Arrival)
		}
	}
	if failed < 5 {
		t.Errorf("%d requests failed: the test lost its pressure", failed)
	}
	if again := playLosses(t, c, ignore); fmt.Sprint(again) != fmt.Sprint(all) {
		t.Error("the same seed gives another episode")
	}
}

// A policy sees the replicas down from the loss on, with no load, and up again
// from its end on; none other is touched.
func TestLossShowsInTheView(t *testing.T) {
	c := twoByTwo(t)
	from, to := 10*time.Second, 14*time.Second
	c.Losses = []env.HostLoss{{Host: 1, From: from, To: to}}
	back := false
	playLosses(t, c, func(e *env.Environment) {
		v, at := e.View(), e.Arrival().At
		down := at >= from && at < to
		if want := []bool{false, down, false, down}; !slices.Equal(v.Down, want) {
			t.Fatalf("at %v down are %v, want %v", at, v.Down, want)
		}
		first := at >= to && !back
		if (down || first) && (v.InFlight[3] != 0 || v.Held[3] != 0) {
			t.Fatalf("at %v a lost replica shows %d in flight that hold %d tokens", at, v.InFlight[3], v.Held[3])
		}
		back = back || at >= to
	})
	if !back {
		t.Error("the episode ended before the host was back")
	}
}

// A request that is lost with its host has fallen short by all of its peak, from the loss on;
// the others by what they earned.
func TestLossIsRemembered(t *testing.T) {
	c := twoByTwo(t)
	c.Losses = []env.HostLoss{{Host: 1, From: 10 * time.Second, To: 14 * time.Second}}
	e := make2(t, c)
	if _, err := e.Reset(5); err != nil {
		t.Fatal(err)
	}
	failed, decisions := 0, 0
	for {
		step, err := e.Step(1)
		if err != nil {
			t.Fatal(err)
		}
		if decisions++; step.Terminated {
			break
		}
		for _, o := range step.Info.Outcomes {
			back := decisions - 1 - o.Decision // from the latest request
			if back >= fleet.RecentRequests {
				continue
			}
			want := c.Table.Tasks[o.Request.Task].Shortfall(o.Utility)
			if o.Failed {
				want = 1
				failed++
			}
			if got := e.View().Recent[back]; got != want {
				t.Errorf("decision %d, failed %t: remembered is a shortfall of %v, want %v", o.Decision, o.Failed, got, want)
			}
		}
	}
	if failed < 5 {
		t.Errorf("%d requests failed: the test lost its pressure", failed)
	}
}

// The mask forbids a variant whose only host is lost; the others go on.
func TestLossMasksWhatHasNoReplica(t *testing.T) {
	c := twoByTwo(t)
	table, err := fleet.NewTable(c.Table.Tasks, c.Table.Variants, c.Table.Hosts, c.Table.Replicas[:3])
	if err != nil {
		t.Fatal(err)
	}
	c.Table, c.Profiles, c.KVTokens, c.Encoder = table, c.Profiles[:3], c.KVTokens[:3], nil
	c.Losses = []env.HostLoss{{Host: 0}} // from before the first request on
	c.Open = of(workloads.Arrival{At: time.Second, PromptTokens: 5, OutputTokens: 5})
	e := make2(t, c)
	if _, err := e.Reset(1); err != nil {
		t.Fatal(err)
	}
	mask := make([]bool, 2)
	if e.ActionMask(mask); !mask[0] || mask[1] {
		t.Errorf("mask %v, want the small variant alone", mask)
	}
	if _, err := e.Step(1); err == nil {
		t.Error("a request goes to a variant without a replica")
	}
	step, err := e.Step(0)
	if err != nil || len(step.Info.Outcomes) != 1 || step.Info.Outcomes[0].Replica != 1 || step.Info.Outcomes[0].Failed {
		t.Errorf("%+v, %v", step, err)
	}
}

// A loss after the last arrival still ends what runs.
func TestLossAfterTheLastArrival(t *testing.T) {
	c := twoByTwo(t)
	c.Balancer = firstOf{}
	c.Open = of(workloads.Arrival{At: time.Second, PromptTokens: 90, OutputTokens: 100})
	c.Losses = []env.HostLoss{{Host: 0, From: 2 * time.Second, To: time.Minute}, {Host: 1, From: time.Hour, To: 2 * time.Hour}}
	e := make2(t, c)
	if _, err := e.Reset(1); err != nil {
		t.Fatal(err)
	}
	step, err := e.Step(1)
	if err != nil || len(step.Info.Outcomes) != 1 {
		t.Fatalf("%+v, %v", step, err)
	}
	o := step.Info.Outcomes[0]
	if !o.Failed || o.Finished != 2*time.Second || o.FirstToken <= time.Second || o.FirstToken >= o.Finished || step.Info.Elapsed != time.Second {
		t.Errorf("after %v: %+v", step.Info.Elapsed, o)
	}
}

func TestLossesThatCannotBe(t *testing.T) {
	for want, losses := range map[string][]env.HostLoss{
		"host loss 1: host 2 of 2":                           {{Host: 0}, {Host: 2}},
		"host loss 0: host -1 of 2":                          {{Host: -1}},
		"host loss 0: from -1s to 0s":                        {{From: -time.Second}},
		"host loss 0: from 2s to 1s":                         {{From: 2 * time.Second, To: time.Second}},
		"host loss 0: from 1s to 1s":                         {{From: time.Second, To: time.Second}},
		"host loss 1: from 5s on no replica is left":         {{Host: 0, From: time.Second}, {Host: 1, From: 5 * time.Second, To: 6 * time.Second}},
		"host loss 0: from 5s on no replica is left":         {{Host: 0, From: 5 * time.Second}, {Host: 1, From: time.Second, To: 6 * time.Second}},
		"host loss 0: host 9 of 2\nhost loss 1: host 8 of 2": {{Host: 9}, {Host: 8}},
	} {
		c := twoByTwo(t)
		c.Losses = losses
		if _, err := env.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", losses, err, want)
		}
	}
	c := twoByTwo(t)
	c.Losses = []env.HostLoss{{Host: 0, From: time.Second, To: 5 * time.Second}, {Host: 1, From: 5 * time.Second}}
	if _, err := env.New(c); err != nil {
		t.Errorf("one host after the other: %v", err)
	}
}

func TestLoseByName(t *testing.T) {
	c := twoByTwo(t)
	other := c
	if err := c.Lose("b", time.Second, 0); err != nil || len(c.Losses) != 1 || c.Losses[0] != (env.HostLoss{Host: 1, From: time.Second}) {
		t.Errorf("%+v, %v", c.Losses, err)
	}
	if err := c.Lose("c", time.Second, 0); err == nil || err.Error() != `no host "c"; there are a, b` {
		t.Errorf("unknown host: %v", err)
	}
	if len(other.Losses) != 0 {
		t.Error("a copy of the configuration lost the host as well")
	}
}

// A copy during an episode meets the same losses: one taken before a
// loss, and one taken while the host is down.
func TestCopiesMeetTheSameLosses(t *testing.T) {
	c := twoByTwo(t)
	c.Losses = []env.HostLoss{{Host: 1, From: 10 * time.Second, To: 14 * time.Second}}
	for _, after := range []time.Duration{9 * time.Second, 11 * time.Second} {
		original, all := make2(t, c), poisson(5, 12, 400)
		if _, err := original.Reset(5); err != nil {
			t.Fatal(err)
		}
		n := 0
		for ; original.Arrival().At < after; n++ {
			if _, err := original.Step(1); err != nil {
				t.Fatal(err)
			}
		}
		rest := (*all)[n+1:]
		var copied env.Environment
		copied.CopyFrom(original, &rest)
		for over := false; !over; {
			want, err := original.Step(1)
			if err != nil {
				t.Fatal(err)
			}
			got, err := copied.Step(1)
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("copied after %v: %+v, %v, want %+v", after, got, err, want)
			}
			over = want.Terminated
		}
	}
}
