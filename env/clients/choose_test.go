package clients_test

import (
	"math"
	"testing"
	"time"

	"gearshift/env/clients"
	"gearshift/router/balance"
	"gearshift/router/signals"
)

// TestProbesAreHeardLater: Prequal probes as often as it says, beside its requests, and gets on
// better than chance.
func TestProbesAreHeardLater(t *testing.T) {
	prequal := balance.Prequal{Probes: 1.5, Pool: 16, Least: 2, Age: 10 * time.Second, Reuse: 3, Remove: 0.5, Quantile: 0.84, Requests: signals.ByHost, Drain: true}
	c := supermarket(20, .9, prequal, 4000*time.Second)
	c.Warmup, c.PollTakes = 0, 10*time.Millisecond
	r := run(t, c)
	if share := float64(r.Probes) / float64(r.Requests); math.Abs(share-1.5) > .02 || r.Polls != 0 {
		t.Errorf("%.3f probes and %d polls for each request, want 1.5 and none", share, r.Polls)
	}
	c.Chooser = balance.Sampled{K: 1}
	if random := run(t, c); r.Mean() > random.Mean()/2 {
		t.Errorf("%v in the mean, by chance %v; want half at most", r.Mean(), random.Mean())
	}
}

// TestPollsTakeWork: hosts are busy with the polls that they answer, before a choice and beside a
// request, and so carry less; without a price they are not.
func TestPollsTakeWork(t *testing.T) {
	two := balance.Sampled{K: 2, Poll: true}
	probes := balance.Prequal{Probes: 2, Pool: 16, Least: 2, Age: 10 * time.Second, Reuse: 3, Remove: 1, Quantile: 0.84, Requests: signals.ByHost, Drain: true}
	for name, c := range map[string]balance.Chooser{"polls": two, "probes": probes} {
		for _, x := range []struct {
			work time.Duration
			busy float64
		}{{0, .6}, {100 * time.Millisecond, .72}, {250 * time.Millisecond, .9}} {
			config := supermarket(20, .6, c, 4000*time.Second)
			config.PollWork = x.work
			r, busy := run(t, config), 0.0
			for _, u := range r.Utilisation {
				busy += u / 20
			}
			if math.Abs(busy-x.busy) > .015 {
				t.Errorf("%s that take %v: hosts are busy %.3f of the time, want %.3f", name, x.work, busy, x.busy)
			}
		}
	}
	config := supermarket(20, .9, two, 2000*time.Second)
	free := run(t, config).Mean()
	config.PollWork = 100 * time.Millisecond // 1.08 of what there is
	if r := run(t, config); r.Mean() < 20*free {
		t.Errorf("hosts that polls overload answer in %v in the mean, without in %v", r.Mean(), free)
	}
}

// TestHedging: where replicas are slow by chance, copies cut the longest times, all that is sent is answered once, and what is cancelled leaves its host.
func TestHedging(t *testing.T) {
	hedged := balance.Hedged{Chooser: balance.Sampled{K: 1}, Quantile: .95, Start: 3 * time.Second, Most: .1}
	c := supermarket(20, .4, hedged, 4000*time.Second)
	c.Models[0].Work, c.Warmup = always(time.Second), 0
	r := run(t, c)
	if share := float64(r.Copies) / float64(r.Requests); share < .03 || share > .07 {
		t.Errorf("%.3f of the requests have copies, want a twentieth", share)
	}
	c.Chooser = balance.Sampled{K: 1}
	plain := run(t, c)
	if math.Abs(float64(r.Requests)/float64(plain.Requests)-1) > .02 {
		t.Errorf("%d requests are answered with copies, %d without", r.Requests, plain.Requests)
	}
	if h, p := r.Quantile(.99), plain.Quantile(.99); h > p*95/100 {
		t.Errorf("99 of 100 take %v with copies and %v without; want less", h, p)
	}
	for i, u := range r.Utilisation {
		if u > .46 {
			t.Errorf("host %d is busy %.3f of the time: copies are not cancelled", i, u)
		}
	}
}

// TestHostsSayHowBusyTheyWere: weights by rate and use even a tier of unequal hosts, which
// round robin does not.
func TestHostsSayHowBusyTheyWere(t *testing.T) {
	c := supermarket(8, .8, nil, 1000*time.Second)
	for i := range c.Hosts {
		c.Hosts[i].Compute = float64(1 + i%4)
	}
	c.Models[0].Work, c.Models[0].Mean = clients.Exponential(100*time.Millisecond), 100*time.Millisecond
	c.Rate = .8 * c.Capacity()
	c.Chooser = balance.Weighted{Blackout: 5 * time.Second, Expiry: time.Minute, Update: time.Second}
	weighted := run(t, c)
	low, high := 1.0, 0.0
	for _, u := range weighted.Utilisation {
		low, high = min(low, u), max(high, u)
	}
	if low < .74 || high > .86 {
		t.Errorf("hosts are busy %.2f to %.2f of the time, want .8 by their weights", low, high)
	}
}

// TestTwoRoutersDoNotChase: two routers that balance one fleet, each by what it hears, do not
// take turns in flooding the replica that both believe to be empty. Where they do, as those that
// follow a board of a quarter of a second, hosts differ more than by a random choice.
func TestTwoRoutersDoNotChase(t *testing.T) {
	random := shared(t, balance.Sampled{K: 1}, 2, 0).Uneven
	if board := shared(t, balance.Sampled{K: 12, Counter: signals.ByWork}, 2, 250*time.Millisecond).Uneven; board < random*3/2 {
		t.Errorf("the work of hosts differs by %v where routers follow a board, by %v by chance; want them to chase", board, random)
	}
	for name, x := range map[string]struct {
		chooser balance.Chooser
		most    float64 // of what chance has
	}{
		"two choices, as last said": {balance.Sampled{K: 2, Counter: signals.ByWork}, .8},
		"two choices, polled":       {balance.Sampled{K: 2, Counter: signals.ByWork, Poll: true}, .4},
		"peak-ewma":                 {balance.PeakEWMA{K: 2, Decay: 10 * time.Second, Start: 30 * time.Millisecond}, .6},
		"weighted":                  {balance.Weighted{Blackout: 5 * time.Second, Expiry: time.Minute, Update: time.Second}, .7},
		"prequal":                   {balance.Prequal{Probes: 3, Pool: 16, Least: 2, Age: time.Second, Reuse: 3, Remove: 1, Quantile: .84, Requests: signals.ByHost, Drain: true}, .6},
		"probing":                   {balance.Probing{Budget: .4, Look: 4, Relax: 100 * time.Millisecond, Rounds: 4, Counter: signals.ByWork}, .35},
	} {
		t.Run(name, func(t *testing.T) {
			one, two := shared(t, x.chooser, 1, 0), shared(t, x.chooser, 2, 0)
			if got := float64(two.Uneven) / float64(random); got > x.most {
				t.Errorf("the work of hosts differs by %.2f of what it does by chance with two routers, want %v at most; with one by %.2f", got, x.most, float64(one.Uneven)/float64(random))
			}
		})
	}
}

// shared plays a tier of three models on twelve hosts whose requests so many routers balance, by
// a board if that is not zero.
func shared(t *testing.T, c balance.Chooser, routers int, board time.Duration) *clients.Result {
	t.Helper()
	d := clients.Drawing{Hosts: 12, Kinds: []float64{3}, Models: 3, Skew: .8, Replicas: 36, Fastest: 5 * time.Millisecond, Slowest: 40 * time.Millisecond, Spread: .5, Seed: 4}
	config, err := d.Draw()
	if err != nil {
		t.Fatal(err)
	}
	config.Clients, config.Chooser, config.Rate, config.Board = routers, c, .7*config.Capacity(), board
	config.Length, config.Warmup, config.PollTakes, config.Seed = 30*time.Second, 8*time.Second, time.Millisecond, 4
	return run(t, config)
}
