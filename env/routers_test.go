package env_test

import (
	"math"
	"reflect"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/envtest"
)

// several is the small fleet behind n routers.
func several(t *testing.T, n int, gauges time.Duration) *env.Environment {
	t.Helper()
	c := twoByTwo(t)
	c.Routers = env.Routers{Number: n, Gauges: gauges}
	return make2(t, c)
}

func TestContractOfSeveralRouters(t *testing.T) {
	for _, gauges := range []time.Duration{0, 1, 700 * time.Millisecond} {
		c := twoByTwo(t)
		c.Routers = env.Routers{Number: 3, Gauges: gauges}
		c.Losses = []env.HostLoss{{Host: 1, From: 5 * time.Second, To: 9 * time.Second}}
		if err := envtest.Check(make2(t, c), 11, 1000); err != nil {
			t.Errorf("gauges each %v: %v", gauges, err)
		}
	}
}

// sight is what the router of one decision sees, beside what there is.
type sight struct {
	inFlight, held []int32
	load, tokens   int // of the whole fleet
	rate           float64
}

func sights(t *testing.T, e *env.Environment) []sight {
	t.Helper()
	if _, err := e.Reset(5); err != nil {
		t.Fatal(err)
	}
	var list []sight
	for i := 0; ; i++ {
		v := e.View()
		s := sight{inFlight: append([]int32(nil), v.InFlight...), held: append([]int32(nil), v.Held...), rate: v.Smoothed[0]}
		for r := range v.Table.Replicas {
			s.load += e.Simulator().Host(v.Table.Replicas[r].Host).Engine(r / 2).Load()
			s.tokens += e.Simulator().Held(r)
		}
		list = append(list, s)
		step, err := e.Step(i % 2)
		if err != nil {
			t.Fatal(err)
		}
		if step.Terminated {
			return list
		}
	}
}

func sum(list []int32) (n int) {
	for _, x := range list {
		n += int(x)
	}
	return n
}

func TestOneRouterIsNone(t *testing.T) {
	if alone, none := sights(t, several(t, 1, time.Second)), sights(t, several(t, 0, 0)); !reflect.DeepEqual(alone, none) {
		t.Error("one router sees something else than where routers are not told apart")
	}
}

// Without gauges the routers together see each request once.
func TestRoutersSeeTheirOwn(t *testing.T) {
	var seen, there, rate, tokens, held float64
	for _, s := range sights(t, several(t, 4, 0)) {
		if n := sum(s.inFlight); n > s.load {
			t.Fatalf("sees %d of %d", n, s.load)
		}
		seen, there, rate = seen+float64(sum(s.inFlight)), there+float64(s.load), rate+s.rate
		held, tokens = held+float64(sum(s.held)), tokens+float64(s.tokens)
	}
	if share := seen / there; math.Abs(share-0.25) > 0.03 {
		t.Errorf("see %.3f of the requests, want a fourth", share)
	}
	if share := held / tokens; math.Abs(share-0.25) > 0.03 {
		t.Errorf("see %.3f of the tokens, want a fourth", share)
	}
	if mean := rate / 400; math.Abs(mean-12) > 2 {
		t.Errorf("estimate a rate of %.2f, want 12", mean)
	}
}

// Gauges that are read at once show everything, but for what a full cache hides.
func TestFreshGaugesShowAll(t *testing.T) {
	for i, s := range sights(t, several(t, 4, 1)) {
		if n := sum(s.inFlight); n != s.load {
			t.Fatalf("decision %d: sees %d of %d", i, n, s.load)
		}
	}
}

// What gauges showed stands until they are read again.
func TestStaleGaugesLag(t *testing.T) {
	errors := func(gauges time.Duration) (off float64) {
		for _, s := range sights(t, several(t, 4, gauges)) {
			off += math.Abs(float64(sum(s.inFlight) - s.load))
		}
		return off
	}
	fresh, quick, slow := errors(1), errors(200*time.Millisecond), errors(5*time.Second)
	if fresh != 0 || quick <= 0 || slow <= 2*quick {
		t.Errorf("off by %v with fresh gauges, %v with quick ones and %v with slow ones", fresh, quick, slow)
	}
}

func TestSeveralRoutersRepeatBySeed(t *testing.T) {
	if a, b := sights(t, several(t, 3, time.Second)), sights(t, several(t, 3, time.Second)); !reflect.DeepEqual(a, b) {
		t.Error("the same seed gave another episode")
	}
}

func TestRoutersAreChecked(t *testing.T) {
	for _, r := range []env.Routers{{Number: -1}, {Number: 2, Gauges: -1}, {Number: 2, Shares: -1}, {Number: 2, Shares: 1, Delay: 1}} {
		c := twoByTwo(t)
		c.Routers = r
		if _, err := env.New(c); err == nil {
			t.Errorf("%+v is accepted", r)
		}
	}
}

// sharing returns the small fleet behind n routers that exchange shares.
func sharing(t *testing.T, n int, gauges, shares, delay time.Duration) *env.Environment {
	t.Helper()
	c := twoByTwo(t)
	c.Routers = env.Routers{Number: n, Gauges: gauges, Shares: shares, Delay: delay}
	return make2(t, c)
}

func TestContractOfRoutersThatShare(t *testing.T) {
	for _, r := range []env.Routers{{Number: 3, Shares: 1}, {Number: 3, Shares: 100 * time.Millisecond, Delay: 10 * time.Millisecond}, {Number: 2, Gauges: time.Second, Shares: 2 * time.Second, Delay: time.Second}} {
		c := twoByTwo(t)
		c.Routers = r
		c.Losses = []env.HostLoss{{Host: 1, From: 5 * time.Second, To: 9 * time.Second}}
		if err := envtest.Check(make2(t, c), 11, 1000); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// Fresh shares show all requests and the total rate.
func TestFreshSharesShowAll(t *testing.T) {
	alone := sights(t, several(t, 1, 0))
	for i, s := range sights(t, sharing(t, 4, 0, 1, 0)) {
		if n := sum(s.inFlight); n != s.load {
			t.Fatalf("decision %d: sees %d of %d", i, n, s.load)
		}
		if i > 100 && math.Abs(s.rate/alone[i].rate-1) > 0.35 {
			t.Errorf("decision %d: a rate of %v, which one router that sees all has as %v", i, s.rate, alone[i].rate)
		}
	}
}

// Older shares show less; with gauges as well, no request counts twice for long.
func TestStaleSharesLag(t *testing.T) {
	off := func(gauges, shares, delay time.Duration) (off float64) {
		for _, s := range sights(t, sharing(t, 4, gauges, shares, delay)) {
			off += math.Abs(float64(sum(s.inFlight) - s.load))
		}
		return off
	}
	fresh, quick, delayed, slow := off(0, 1, 0), off(0, 100*time.Millisecond, 0), off(0, 100*time.Millisecond, 90*time.Millisecond), off(0, 2*time.Second, 0)
	if fresh != 0 || quick <= 0 || delayed <= quick || slow <= delayed {
		t.Errorf("off by %v with fresh shares, %v with quick ones, %v with those that come late and %v with rare ones", fresh, quick, delayed, slow)
	}
	if gauges, both := off(time.Second, 0, 0), off(time.Second, 100*time.Millisecond, 0); both >= gauges {
		t.Errorf("off by %v with gauges, and by %v with shares too", gauges, both)
	}
}
