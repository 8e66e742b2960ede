package clients_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"gearshift/env/clients"
	"gearshift/router/balance"
	"gearshift/router/fleet"
)

// apart is models of exponential work with a mean of one second, each with many hosts of its own,
// so that hardly a request waits.
func apart(models int, rate float64) *clients.Config {
	const each = 40
	c := &clients.Config{Clients: 1, Rate: rate, Chooser: balance.Sampled{K: 2, Poll: true}, Length: 20_000 * time.Second, Seed: 3}
	for m := range models {
		x := clients.Demand{Model: fleet.Model{Name: fmt.Sprint(m)}, Share: 1, Work: clients.Exponential(time.Second), Mean: time.Second}
		for range each {
			x.Replicas = append(x.Replicas, len(c.Hosts))
			c.Hosts = append(c.Hosts, fleet.Host{Compute: 1})
		}
		c.Models = append(c.Models, x)
	}
	return c
}

// TestARequestIsAsSlowAsItsSlowestModel: the mean of a request that asks k models is that of the
// longest of k exponential times, the harmonic number 1 + 1/2 + … + 1/k.
func TestARequestIsAsSlowAsItsSlowestModel(t *testing.T) {
	harmonic := 0.0
	for k := 1; k <= 5; k++ {
		harmonic += 1 / float64(k)
		c := apart(5, 1)
		c.Fanout = k
		r := run(t, c)
		if got := r.Mean().Seconds(); math.Abs(got/harmonic-1) > 0.03 {
			t.Errorf("%d models: a mean of %.3f s, want %.3f within 3 %%", k, got, harmonic)
		}
		if r.Requests < 19_000 || r.Requests > 21_000 || len(r.Times) != r.Requests {
			t.Errorf("%d models: %d requests with %d times, want 20,000 or so of each", k, r.Requests, len(r.Times))
		}
	}
}

// TestExamplesAreTheUnitOfWork: a request with four examples takes as long as four, and hosts have
// four times the work, whatever the number of requests.
func TestExamplesAreTheUnitOfWork(t *testing.T) {
	c := apart(1, 1)
	c.Models[0].Work = always(time.Second)
	c.Examples = func(*rand.Rand) int { return 4 }
	r := run(t, c)
	if got := r.Mean().Seconds(); math.Abs(got-4) > 0.05 {
		t.Errorf("four examples of a second take %.3f s", got)
	}
	sum := 0.0
	for _, u := range r.Utilisation {
		sum += u
	}
	if math.Abs(sum-4) > 0.1 {
		t.Errorf("%.3f cores are busy, want 4", sum)
	}
}

func TestBadFanouts(t *testing.T) {
	c := apart(2, 1)
	c.Fanout = 3
	if _, err := clients.Run(c); err == nil || !strings.Contains(err.Error(), "a request asks 3 models of 2") {
		t.Errorf("the error is %v", err)
	}
}
