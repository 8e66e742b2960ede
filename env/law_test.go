package env_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/envtest"
	"gearshift/router/balance"
	"gearshift/router/fleet"
	"gearshift/workloads"
)

// sharedCores has the hosts of twoByTwo share a core each among requests that take 50 ms of it.
func sharedCores(t *testing.T, requests int) env.Config {
	c := twoByTwo(t)
	c.Profiles, c.KVTokens = nil, nil
	c.Work = func(fleet.Request, int, int) time.Duration { return 50 * time.Millisecond }
	c.Laws = func() (laws []env.Law) {
		for h := range c.Table.Hosts {
			laws = append(laws, env.NewSharedHost(env.SharedOptions{Cores: 1, Uses: make([]float64, len(c.Table.ReplicasOn(h))), Until: time.Hour}))
		}
		return laws
	}
	c.Open = func(seed uint64) (workloads.Stream, error) { return poisson(seed, 20, requests), nil }
	return c
}

// TestARouterSendsToSharedCores: an environment keeps its contract where hosts share their cores. With
// a balancer by chance each host is a queue M/D/1 at half load that is shared, whose requests take
// twice their work in the mean.
func TestARouterSendsToSharedCores(t *testing.T) {
	if err := envtest.Check(make2(t, sharedCores(t, 400)), 5, 1000); err != nil {
		t.Error(err)
	}
	c := sharedCores(t, 40_000)
	c.Balancer = balance.PowerOfK{K: 1}
	e := make2(t, c)
	if _, err := e.Reset(1); err != nil {
		t.Fatal(err)
	}
	sum, n := 0.0, 0
	for over := false; !over; {
		s, err := e.Step(0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range s.Info.Outcomes {
			sum, n = sum+s.Info.Outcomes[i].Took().Total.Seconds(), n+1
		}
		over = s.Terminated
	}
	if mean := sum / float64(n); n != 40_000 || math.Abs(mean/0.1-1) > 0.04 {
		t.Errorf("%d requests take %.4f s in the mean, want 40,000 and .1", n, mean)
	}
}

// TestAHostOfSharedCoresIsLost: what it has fails, and what comes later goes to the other.
func TestAHostOfSharedCoresIsLost(t *testing.T) {
	c := sharedCores(t, 400)
	c.Work = func(fleet.Request, int, int) time.Duration { return 95 * time.Millisecond }
	c.Losses = []env.HostLoss{{Host: 0, From: 5 * time.Second}}
	failed, ended := 0, 0
	e := make2(t, c)
	if _, err := e.Reset(2); err != nil {
		t.Fatal(err)
	}
	for over := false; !over; {
		s, err := e.Step(0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range s.Info.Outcomes {
			o := &s.Info.Outcomes[i]
			if ended++; o.Failed {
				failed++
			}
			if o.Failed && o.Finished != 5*time.Second || c.Table.Replicas[o.Replica].Host == 0 && o.Request.Arrival > 5*time.Second {
				t.Errorf("%+v", o)
			}
		}
		over = s.Terminated
	}
	if failed == 0 || ended != 400 {
		t.Errorf("%d of %d requests failed", failed, ended)
	}
}

func TestLawsAreNotForEngines(t *testing.T) {
	for words, spoil := range map[string]func(c *env.Config){
		"laws of hosts without the work of requests":     func(c *env.Config) { c.Work = nil },
		"laws of hosts with profiles, slowdowns, margin": func(c *env.Config) { c.Marginal = true },
	} {
		c := sharedCores(t, 1)
		spoil(&c)
		if _, err := env.New(c); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, want %q", err, words)
		}
	}
}
