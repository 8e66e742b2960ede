package scaling_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"gearshift/env/scaling"
	"gearshift/router/tiers"
)

// twoTiers is two tiers with equally many hosts: the first computes twice as much. The load is
// 80 % of what both answer.
func twoTiers(routers ...scaling.Router) *scaling.Tiers {
	s := &scaling.Series{}
	for range 90 * 60 {
		s.Arrivals = append(s.Arrivals, 2400)
	}
	return &scaling.Tiers{
		Series: s, Options: tiers.Defaults, Patience: time.Second, Routers: routers,
		Tiers: []scaling.Tier{
			{Tier: tiers.Tier{Name: "new", Compute: 2}, Capacity: 2000},
			{Tier: tiers.Tier{Name: "old", Compute: 1}, Capacity: 1000},
		},
	}
}

func runTiers(t *testing.T, c *scaling.Tiers) *scaling.TiersResult {
	t.Helper()
	r, err := c.Run()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestComputeDividesTraffic: by hosts the smaller tier is overloaded, by compute none is.
func TestComputeDividesTraffic(t *testing.T) {
	byHosts := runTiers(t, twoTiers(scaling.Router{Part: 1, Shares: []float64{0.5, 0.5}}))
	byCompute := runTiers(t, twoTiers(scaling.Router{Part: 1, Shares: tiers.Shares([]tiers.Tier{{Compute: 2}, {Compute: 1}})}))
	if want := 200. / 2400; math.Abs(byHosts.Errors()-want) > 0.001 || byCompute.Refused != 0 || byCompute.Spread() > 1e-9 {
		t.Errorf("by hosts %.4f are refused, want %.4f; by compute %.4f with a spread of %v, want none", byHosts.Errors(), want, byCompute.Errors(), byCompute.Spread())
	}
}

// TestControllersEvenTiersOut: two routers that begin with different shares bring both tiers to
// the same utilisation, and again after one has lost half of what it answers.
func TestControllersEvenTiersOut(t *testing.T) {
	c := twoTiers(scaling.Router{Part: 0.5, Shares: []float64{0.8, 0.2}, Controlled: true}, scaling.Router{Part: 0.5, Shares: []float64{0.4, 0.6}, Controlled: true})
	c.Changes = []scaling.Change{{At: 45 * time.Minute, Tier: 1, Capacity: 500}}
	r := runTiers(t, c)
	for _, x := range []struct {
		minute int
		want   float64
	}{{44, 0.8}, {89, 0.96}} {
		for tier, u := range r.Utilisation[x.minute] {
			if math.Abs(u-x.want) > 0.01 {
				t.Errorf("minute %d: tier %d is %.3f busy, want %.2f", x.minute, tier, u, x.want)
			}
		}
	}
	if u := r.Utilisation[45]; u[1] < 0.99 {
		t.Errorf("after the loss the second tier is %.3f busy", u[1])
	}
	if early, late := r.Shares[80][0], r.Shares[89][0]; math.Abs(early-late) > 0.002 {
		t.Errorf("a share still moves from %.4f to %.4f", early, late)
	}
}

func TestBadTiersAreNotSimulated(t *testing.T) {
	c := twoTiers(scaling.Router{Part: 1, Shares: []float64{1}})
	c.Series, c.Tiers[0].Capacity, c.Changes = nil, 0, []scaling.Change{{Tier: 2}}
	_, err := c.Run()
	for _, want := range []string{"no arrivals", `tier "new": a capacity of 0`, "a change of tier 2", "router 0: 1 shares for 2 tiers"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q in it", err, want)
		}
	}
	c = twoTiers(scaling.Router{Part: 1, Shares: []float64{0.5, 0.6}, Controlled: true})
	if _, err := c.Run(); err == nil {
		t.Error("shares that add up to 1.1 are controlled")
	}
}
