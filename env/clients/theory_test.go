package clients_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gearshift/env/clients"
	"gearshift/router/balance"
	"gearshift/router/fleet"
	"gearshift/router/signals"
)

// supermarket is n hosts of one core, each with the one model, and requests of a mean of one
// second: the supermarket model of Mitzenmacher (1996), whose mean response times are known
// in the limit of many hosts.
func supermarket(n int, load float64, c balance.Chooser, length time.Duration) *clients.Config {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	config := &clients.Config{
		Models:  []clients.Demand{{Model: fleet.Model{Name: "m"}, Share: 1, Work: clients.Exponential(time.Second), Mean: time.Second, Replicas: all}},
		Clients: 1, Rate: load * float64(n), Chooser: c, Length: length, Warmup: length / 4, Seed: 1,
	}
	for range all {
		config.Hosts = append(config.Hosts, fleet.Host{Compute: 1})
	}
	return config
}

// always is work that does not vary.
func always(work time.Duration) func(*rand.Rand) time.Duration {
	return func(*rand.Rand) time.Duration { return work }
}

func run(t *testing.T, c *clients.Config) *clients.Result {
	t.Helper()
	r, err := clients.Run(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// powerOfTwo is the mean response time in the limit: the sum of λ^(2^i − 2).
func powerOfTwo(load float64) (mean float64) {
	for i := 1; i < 60; i++ {
		mean += math.Pow(load, math.Pow(2, float64(i))-2)
	}
	return mean
}

// TestTheory: random choice and the power of two choices, with 500 hosts, take what theory has
// for infinitely many, within 5 %.
func TestTheory(t *testing.T) {
	random := balance.Sampled{K: 1}
	two := balance.Sampled{K: 2, Poll: true}
	for _, x := range []struct {
		name    string
		chooser balance.Chooser
		load    float64
		length  time.Duration
		want    float64
	}{
		{"random at .9", random, .9, 4000 * time.Second, 10},
		{"power of two at .9", two, .9, 600 * time.Second, 2.614},
		{"power of two at .99", two, .99, 4000 * time.Second, 5.43},
	} {
		t.Run(x.name, func(t *testing.T) {
			if x.chooser == balance.Chooser(two) && math.Abs(powerOfTwo(x.load)/x.want-1) > .005 {
				t.Fatalf("the sum is %.4f, not %v", powerOfTwo(x.load), x.want)
			}
			c := supermarket(500, x.load, x.chooser, x.length)
			got := run(t, c).Mean().Seconds()
			if math.Abs(got/x.want-1) > .05 {
				t.Errorf("a mean of %.3f s, want %.3f within 5 %%", got, x.want)
			}
		})
	}
}

// TestStaleInformation: where all clients see loads that are ten service times old, the least
// loaded of all is worse than a random choice, and two choices are better than either
// (Mitzenmacher, "How useful is old information?", 2000).
func TestStaleInformation(t *testing.T) {
	mean := func(k int, board time.Duration) float64 {
		c := supermarket(100, .9, balance.Sampled{K: k}, 2000*time.Second)
		c.Board = board
		return run(t, c).Mean().Seconds()
	}
	const old = 10 * time.Second
	random, two, least := mean(1, old), mean(2, old), mean(100, old)
	if !(two < random && random < least) {
		t.Errorf("two choices take %.2f s, a random one %.2f, the least loaded %.2f: want that order", two, random, least)
	}
	if fresh := mean(100, 50*time.Millisecond); !(fresh < two) {
		t.Errorf("with fresh information the least loaded takes %.2f s, two choices with old %.2f", fresh, two)
	}
}

// TestAllWorkIsDone: what hosts were busy with is what requests brought, and as many were
// answered as came.
func TestAllWorkIsDone(t *testing.T) {
	c := supermarket(50, .5, balance.Sampled{K: 2, Poll: true, Counter: signals.ByWork}, 2000*time.Second)
	c.Warmup = 0
	r := run(t, c)
	mean := 0.0
	for _, u := range r.Utilisation {
		mean += u / float64(len(r.Utilisation))
	}
	if math.Abs(mean-.5) > .01 || math.Abs(float64(r.Requests)/50000-1) > .02 {
		t.Errorf("busy %.3f of the time with %d requests, want half with about 50,000", mean, r.Requests)
	}
	if r.Tail() < mean || r.Quantile(.5) >= r.Quantile(.99) {
		t.Errorf("the busiest are busy %.3f of the time, all %.3f; the median is %v, p99 %v", r.Tail(), mean, r.Quantile(.5), r.Quantile(.99))
	}
	if r.Polls != 2*r.Requests {
		t.Errorf("%d polls for %d requests of two choices", r.Polls, r.Requests)
	}
}

// TestASharedHostIsFair: two requests on one core take twice as long as each alone, on two
// cores no longer.
func TestASharedHostIsFair(t *testing.T) {
	fixed := func(seconds float64) clients.Demand {
		d := time.Duration(seconds * 1e9)
		return clients.Demand{Model: fleet.Model{Name: "m"}, Share: 1, Work: always(d), Mean: d, Replicas: []int{0}}
	}
	for _, x := range []struct{ cores float64 }{{1}, {2}} {
		c := &clients.Config{Hosts: []fleet.Host{{Compute: x.cores}}, Models: []clients.Demand{fixed(1)}, Clients: 1, Rate: 1, Chooser: balance.Sampled{K: 1}, Length: 4000 * time.Second, Seed: 3}
		c.Rate = .9 * c.Capacity()
		r := run(t, c)
		if r.Quantile(0) < time.Second-time.Microsecond {
			t.Errorf("%v cores: a request of a second took %v", x.cores, r.Quantile(0))
		}
		for i, u := range r.Utilisation {
			if math.Abs(u-.9) > .03 {
				t.Errorf("%v cores: host %d is busy %.3f, want .9", x.cores, i, u)
			}
		}
	}
	// M/D/1 with processor sharing takes 1/(1−ρ) in the mean, whatever the distribution.
	c := &clients.Config{Hosts: []fleet.Host{{Compute: 1}}, Models: []clients.Demand{fixed(1)}, Clients: 1, Rate: .5, Chooser: balance.Sampled{K: 1}, Length: 100000 * time.Second, Warmup: 100 * time.Second, Seed: 4}
	if got := run(t, c).Mean().Seconds(); math.Abs(got-2) > .06 {
		t.Errorf("a shared core at half load takes %.3f s in the mean, want 2", got)
	}
}

func TestBadTiers(t *testing.T) {
	if _, err := clients.Run(&clients.Config{}); err == nil {
		t.Error("a tier without hosts runs")
	}
	c := supermarket(2, .5, balance.Sampled{K: 1}, time.Second)
	c.Models[0].Replicas = []int{0, 7}
	if _, err := clients.Run(c); err == nil {
		t.Error("a model on a host that is not there runs")
	}
}
