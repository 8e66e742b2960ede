package tiers_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/tiers"
)

var _ control.Controller = (*tiers.Controller)(nil)

// TestSharesByCompute: of two tiers with equally many hosts the one that computes twice as much
// gets two thirds.
func TestSharesByCompute(t *testing.T) {
	byHosts := tiers.Shares([]tiers.Tier{{Name: "a", Compute: 8}, {Name: "b", Compute: 8}})
	byCompute := tiers.Shares([]tiers.Tier{{Name: "a", Compute: 8 * 2}, {Name: "b", Compute: 8 * 1}})
	if got := fmt.Sprintf("%.3f -> %.3f", byHosts, byCompute); got != "[0.500 0.500] -> [0.667 0.333]" {
		t.Errorf("shares %s", got)
	}
	if got := tiers.Shares([]tiers.Tier{{Name: "a"}, {Name: "b"}}); !slices.Equal(got, []float64{.5, .5}) {
		t.Errorf("without any compute the shares are %v", got)
	}
}

// tested is tiers that really can compute so much, and what routers send to them.
type tested struct {
	real    []float64
	load    float64
	routers []*router
	lag     int // how many periods old what they see is
	history [][]float64
	blind   int // a tier that does not report, from 1 on
}

// router sends a part of the load by its shares.
type router struct {
	part   float64
	shares []float64
	*tiers.Controller
}

func (r *router) Weigh(shares []float64) { r.shares = append(r.shares[:0], shares...) }

func (f *tested) Utilisation(tier int) (float64, bool) {
	i := len(f.history) - 1 - f.lag
	if i < 0 || f.blind == tier+1 {
		return 0, false
	}
	return f.history[i][tier], true
}

// period has the load be answered, and wakes the routers.
func (f *tested) period(now time.Duration) {
	used := make([]float64, len(f.real))
	for _, r := range f.routers {
		for i, x := range r.shares {
			used[i] += f.load * r.part * x
		}
	}
	for i := range used {
		used[i] /= f.real[i]
	}
	f.history = append(f.history, used)
	for _, r := range f.routers {
		r.Wake(now)
	}
}

func newFleet(t *testing.T, o tiers.Options, real []float64, declared []tiers.Tier, parts ...float64) *tested {
	t.Helper()
	f := &tested{real: real, load: 50}
	for _, part := range parts {
		r := &router{part: part}
		c, err := tiers.New(declared, o, f, r)
		if err != nil {
			t.Fatal(err)
		}
		r.Controller = c
		r.Wake(0)
		f.routers = append(f.routers, r)
	}
	return f
}

// spread is how far the busiest tier is from the idlest, relative to it.
func (f *tested) spread() float64 {
	last := f.history[len(f.history)-1]
	return slices.Max(last)/slices.Min(last) - 1
}

func (f *tested) run(from, periods int) {
	for i := range periods {
		f.period(time.Duration(from+i+1) * tiers.Defaults.Period)
	}
}

// TestTiersEvenOut: hosts that compute less than declared lose share until all tiers are equally
// busy, without a swing beyond; and again when a tier shrinks.
func TestTiersEvenOut(t *testing.T) {
	f := newFleet(t, tiers.Defaults, []float64{60, 40}, []tiers.Tier{{Name: "new", Compute: 80}, {Name: "old", Compute: 40}}, 1)
	f.run(0, 1)
	before := f.spread()
	for i := range 60 {
		f.run(1+i, 1)
		if f.routers[0].shares[0] < 0.6 {
			t.Fatalf("after %d periods the share is %.4f, below the %.1f that evens the tiers out", i, f.routers[0].shares[0], 0.6)
		}
	}
	if after := f.spread(); before < 0.3 || after > 0.01 {
		t.Errorf("the busiest is %.3f busier at first and %.4f after ten minutes, want below .01", before, after)
	}
	f.real[1] = 15
	f.run(61, 1)
	before = f.spread()
	f.run(62, 80)
	if after := f.spread(); before < 0.5 || after > 0.01 {
		t.Errorf("after the loss %.3f, and %.4f a quarter of an hour later, want below .01", before, after)
	}
}

// TestTwoRoutersDoNotChase: two routers that begin with different shares, see what both bring
// about, and see it late, come to rest.
func TestTwoRoutersDoNotChase(t *testing.T) {
	for lag := range 4 {
		f := newFleet(t, tiers.Defaults, []float64{60, 40}, []tiers.Tier{{Name: "a", Compute: 1}, {Name: "b", Compute: 1}}, 0.7, 0.3)
		f.lag = lag
		if err := f.routers[1].Start([]float64{0.05, 0.95}); err != nil {
			t.Fatal(err)
		}
		f.run(0, 150)
		before := slices.Clone(f.routers[0].shares)
		f.run(150, 20)
		if moved := math.Abs(f.routers[0].shares[0] - before[0]); f.spread() > 0.01 || moved > 0.001 {
			t.Errorf("seen %d periods late: the busiest is %.4f busier, and a share moves by %.5f", lag, f.spread(), moved)
		}
	}
}

// TestNoiseIsNotFollowed: with utilisations that are 5 % off, shares stay within 3 % of those that
// even the tiers out.
func TestNoiseIsNotFollowed(t *testing.T) {
	f := newFleet(t, tiers.Defaults, []float64{60, 40}, []tiers.Tier{{Name: "a", Compute: 60}, {Name: "b", Compute: 40}}, 1)
	random := rand.New(rand.NewPCG(3, 4))
	for i := range 500 {
		f.run(i, 1)
		last := f.history[len(f.history)-1]
		for k := range last {
			last[k] *= 1 + 0.05*random.NormFloat64()
		}
		if x := f.routers[0].shares[0]; math.Abs(x/0.6-1) > 0.03 {
			t.Fatalf("after %d periods a share of %.4f, want within 3 %% of .6", i, x)
		}
	}
}

// TestWhatIsUnknownMovesNothing: while a tier does not report, or nothing runs, shares stay.
func TestWhatIsUnknownMovesNothing(t *testing.T) {
	f := newFleet(t, tiers.Defaults, []float64{10, 40}, []tiers.Tier{{Name: "a", Compute: 1}, {Name: "b", Compute: 1}}, 1)
	f.blind = 2
	f.run(0, 50)
	if x := f.routers[0].shares[0]; x != 0.5 {
		t.Errorf("a share of %v with a tier that does not report, want .5", x)
	}
	f.blind, f.load = 0, 0
	f.run(50, 50)
	if x := f.routers[0].shares[0]; x != 0.5 {
		t.Errorf("a share of %v without any load, want .5", x)
	}
}

// TestATierKeepsItsLeast: a tier that is always overloaded keeps a hundredth, and shares add up
// to 1.
func TestATierKeepsItsLeast(t *testing.T) {
	f := newFleet(t, tiers.Defaults, []float64{1e-6, 40, 20}, []tiers.Tier{{Name: "a", Compute: 1}, {Name: "b", Compute: 1}, {Name: "c", Compute: 1}}, 1)
	f.run(0, 500)
	x := f.routers[0].Shares(nil)
	if math.Abs(x[0]-0.01) > 1e-9 || math.Abs(x[0]+x[1]+x[2]-1) > 1e-9 {
		t.Errorf("shares %v, want .01 for the first and a sum of 1", x)
	}
}

// TestWakeIsOnTime: it acts once a period, however often it is woken.
func TestWakeIsOnTime(t *testing.T) {
	f := newFleet(t, tiers.Defaults, []float64{10, 40}, []tiers.Tier{{Name: "a", Compute: 1}, {Name: "b", Compute: 1}}, 1)
	f.run(0, 1)
	before := slices.Clone(f.routers[0].shares)
	if next := f.routers[0].Wake(15 * time.Second); next != 20*time.Second || !slices.Equal(before, f.routers[0].shares) {
		t.Errorf("woken early it asks for %v and has the shares %v, want 20s and %v", next, f.routers[0].shares, before)
	}
	if n := testing.AllocsPerRun(100, func() { f.routers[0].Wake(time.Hour); f.routers[0].Wake(0) }); n != 0 {
		t.Errorf("%v allocations for a wake-up", n)
	}
}

func TestBadTiers(t *testing.T) {
	good := []tiers.Tier{{Name: "a", Compute: 1}, {Name: "b", Compute: 1}}
	for _, x := range []struct {
		tiers   []tiers.Tier
		options tiers.Options
		want    string
	}{
		{good[:1], tiers.Defaults, "1 tiers; want at least 2"},
		{[]tiers.Tier{{Name: "a", Compute: 1}, {Name: "a", Compute: 1}}, tiers.Defaults, `a tier named "a"; want names that differ`},
		{[]tiers.Tier{{Name: "a", Compute: 1}, {Name: "b", Compute: math.NaN()}}, tiers.Defaults, `tier "b": a compute of NaN`},
		{good, tiers.Options{Gain: 0.1}, "a period of 0s"},
		{good, tiers.Options{Period: 1, Gain: 2}, "a gain of 2"},
		{good, tiers.Options{Period: 1, Gain: 1, Least: 0.3}, "a least share of 0.3 for each of 2 tiers"},
	} {
		if _, err := tiers.New(x.tiers, x.options, nil, nil); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v: the error is %v, want %q", x.tiers, err, x.want)
		}
	}
	c, err := tiers.New(good, tiers.Defaults, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, shares := range [][]float64{{1}, {0.5, 0.6}, {-0.5, 1.5}, {math.NaN(), 1}} {
		if c.Start(shares) == nil {
			t.Errorf("it starts with the shares %v", shares)
		}
	}
}
