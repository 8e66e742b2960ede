package clients_test

import (
	"math"
	"testing"
	"time"

	"gearshift/env/clients"
	"gearshift/router/balance"
	"gearshift/router/fleet"
)

// TestTurns: with one host of one core at a load of .7, requests that all take as long take on average
// what theory has: one after the other 1 + .7 / (2 × .3) times their work (Pollaczek and Khinchine), and
// sharing the core 1 / .3 times.
func TestTurns(t *testing.T) {
	for _, x := range []struct {
		name  string
		turns bool
		want  float64
	}{{"one after the other", true, 1 + 0.7/0.6}, {"at a time", false, 1 / 0.3}} {
		c := supermarket(1, 0.7, balance.Sampled{K: 1}, 200_000*time.Second)
		c.Models[0].Work, c.Turns = always(time.Second), x.turns
		if got := run(t, c).Mean().Seconds(); math.Abs(got/x.want-1) > 0.05 {
			t.Errorf("%s: a mean of %.3f s, want %.3f within 5 %%", x.name, got, x.want)
		}
	}
}

// TestTurnsOfModels: requests of different models do not wait for each other.
func TestTurnsOfModels(t *testing.T) {
	c := &clients.Config{
		Hosts: []fleet.Host{{Compute: 2}}, Clients: 1, Rate: 1, Turns: true, Chooser: balance.Sampled{K: 1}, Length: 20_000 * time.Second, Warmup: time.Second, Seed: 1,
		Models: []clients.Demand{
			{Model: fleet.Model{Name: "short"}, Share: 1, Work: always(10 * time.Millisecond), Mean: 10 * time.Millisecond, Replicas: []int{0}},
			{Model: fleet.Model{Name: "long"}, Share: 1, Work: always(time.Second), Mean: time.Second, Replicas: []int{0}},
		},
	}
	// Half of the requests take 10 ms, the others a second and what they wait for each other: no core
	// is ever short.
	want := (0.01 + 1 + 0.5/(2*0.5)) / 2
	if got := run(t, c).Mean().Seconds(); math.Abs(got/want-1) > 0.05 {
		t.Errorf("a mean of %.3f s, want %.3f within 5 %%", got, want)
	}
}
