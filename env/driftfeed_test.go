package env_test

import (
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/envtest"
	"gearshift/workloads"
)

// slowdowns is how slow each replica is in the last view of an episode in which both
// variants answer.
func slowdowns(t *testing.T, c env.Config) []float64 {
	t.Helper()
	e := make2(t, c)
	if _, err := e.Reset(3); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		step, err := e.Step(i % 2)
		if err != nil {
			t.Fatal(err)
		}
		if step.Terminated {
			break
		}
	}
	list := make([]float64, len(c.Table.Replicas))
	for i := range list {
		list[i] = e.View().Slowdown(i)
	}
	return list
}

// slowed is the small fleet with the GPU part of its steps half as long again, and
// policies that reckon with the profiles as they were. There is memory for all: what waits
// for it is no matter of steps.
func slowed(t *testing.T) env.Config {
	t.Helper()
	c := twoByTwo(t)
	c.Declared = c.Profiles
	c.SlowGPU(1.5)
	c.KVTokens = []int{20000, 20000, 20000, 20000}
	return c
}

// The large model's steps are the GPU's, the small one's hardly.
func TestViewsReportSlowReplicas(t *testing.T) {
	for i, s := range slowdowns(t, slowed(t)) {
		if large := i >= 2; large && !(s > 1.35 && s < 1.55) || !large && s != 1 {
			t.Errorf("replica %d takes %v times as long as its profile says", i, s)
		}
	}
}

func TestViewsDoNotReportSlowReplicas(t *testing.T) {
	asDeclared, unwatched, several := slowed(t), slowed(t), slowed(t)
	asDeclared.Profiles = asDeclared.Declared
	unwatched.Declared = nil
	several.Routers = env.Routers{Number: 2}
	for name, c := range map[string]env.Config{"as declared": asDeclared, "unwatched": unwatched, "several routers": several} {
		for i, s := range slowdowns(t, c) {
			if s != 1 {
				t.Errorf("%s: replica %d takes %v times as long as its profile says", name, i, s)
			}
		}
	}
}

// The contract holds with replicas watched, lost hosts and requests of one token.
func TestContractOfSlowReplicas(t *testing.T) {
	c := slowed(t)
	c.Losses = []env.HostLoss{{Host: 1, From: 5 * time.Second, To: 9 * time.Second}}
	if err := envtest.Check(make2(t, c), 11, 1000); err != nil {
		t.Error(err)
	}
	c.Declared = c.Declared[:1]
	if _, err := env.New(c); err == nil {
		t.Error("one declared profile for four replicas passes")
	}
}

// Where forecasts do not allow for slow replicas, policies that choose by them are doubted.
func TestDoubt(t *testing.T) {
	for name, want := range map[string]bool{"uncorrected": true, "corrected": false, "off": false} {
		c := slowed(t)
		c.Open = func(seed uint64) (workloads.Stream, error) { return poisson(seed, 2, 400), nil }
		c.Doubt, c.Uncorrected = name != "off", name != "corrected"
		e := make2(t, c)
		if _, err := e.Reset(1); err != nil {
			t.Fatal(err)
		}
		doubted := false
		for !doubted {
			step, err := e.Step(1)
			if err != nil {
				t.Fatal(err)
			}
			if doubted = e.Doubted(); step.Terminated {
				break
			}
		}
		if doubted != want {
			t.Errorf("%s: doubted is %v", name, doubted)
		}
	}
}
