package balance_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/combin"
	"gonum.org/v1/gonum/stat/distuv"

	"gearshift/router/balance"
	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/profile"
)

func TestConformance(t *testing.T) {
	for _, table := range []*fleet.Table{conformance.Fleet(0), conformance.Fleet(8), conformance.FleetOf(25, 8)} {
		work := balance.LeastWork{Profiles: make([]*profile.Profile, len(table.Replicas)), Context: 218}
		work.Output = 2560 // long enough for caches that fill in some views and not in others
		for i := range work.Profiles {
			work.Profiles[i] = &profile.Profile{Weights: float64(1 + table.Replicas[i].Variant), Context: 1e-4, Sequence: 0.01, Contention: 0.5}
		}
		for _, b := range []balance.Balancer{
			balance.SmallestBatch{}, balance.SmallestFitting{}, balance.LeastHarm{}, balance.LeastHarm(work), work,
			balance.PowerOfK{K: 2}, balance.PowerOfK{K: 3},
			balance.Affinity{Balancer: work, Bound: 1.25},
		} {
			conformance.Balancer(t, table, b)
		}
	}
}

func TestMake(t *testing.T) {
	for _, name := range []string{"smallest-batch", "smallest-fitting", "least-harm", "least-work", "power-of-two", "power-of-k:1", "power-of-k:3"} {
		b, err := balance.Make(name, balance.Known{})
		if err != nil || b.Name() != name {
			t.Errorf("Make(%q) = %v, %v", name, b, err)
		}
	}
	if two, err := balance.Make("power-of-k:2", balance.Known{}); err != nil || two.Name() != "power-of-two" {
		t.Errorf("power-of-k:2 is %v, %v; want power-of-two", two, err)
	}
	_, err := balance.Make("roulette", balance.Known{})
	if err == nil || !strings.Contains(err.Error(), balance.Forms) {
		t.Errorf("the error %v does not list the balancers", err)
	}
	for _, name := range []string{"power-of-k:", "power-of-k:0", "power-of-k:-1", "power-of-k:two", "power-of-k:65"} {
		if _, err := balance.Make(name, balance.Known{}); err == nil || !strings.Contains(err.Error(), "a K of 1 to 64") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// oneVariant is a fleet of one variant with a replica for each load, and its view.
func oneVariant(t *testing.T, loads ...int32) *fleet.View {
	t.Helper()
	replicas := make([]fleet.Replica, len(loads))
	for i := range replicas {
		replicas[i].KVTokens = 1000
	}
	table, err := fleet.NewTable(
		[]fleet.Task{{Name: "task", Deadline: 1, Weight: 1, Quality: []float64{1}}},
		[]fleet.Variant{{Name: "model"}}, []fleet.Host{{Name: "host"}}, replicas)
	if err != nil {
		t.Fatal(err)
	}
	return &fleet.View{Table: table, InFlight: loads, Held: make([]int32, len(loads)), Down: make([]bool, len(loads))}
}

func TestSmallestBatchPicksTheEmptiest(t *testing.T) {
	v := oneVariant(t, 4, 2, 9, 0)
	v.Down[3] = true // the emptiest is down: the next one up counts
	for random := range uint64(100) {
		if i := (balance.SmallestBatch{}).Pick(v, &fleet.Request{}, 0, random<<57); i != 1 {
			t.Fatalf("picked %d, want 1", i)
		}
	}
}

func TestSmallestFittingMindsFullCaches(t *testing.T) {
	v := oneVariant(t, 1, 2, 9, 0)
	v.Held = []int32{850, 790, 300, 100}
	v.Down[3] = true
	pick := func() int {
		t.Helper()
		first := (balance.SmallestFitting{}).Pick(v, &fleet.Request{}, 0, 0)
		for random := range uint64(100) {
			if i := (balance.SmallestFitting{}).Pick(v, &fleet.Request{}, 0, random<<57); i != first {
				t.Fatalf("picked %d and %d, of which one is worse", first, i)
			}
		}
		return first
	}
	if i := pick(); i != 1 { // the smallest batch has no room
		t.Errorf("picked %d, want 1", i)
	}
	v.Held[1], v.Held[2] = 1200, 830
	if i := pick(); i != 2 { // none has room
		t.Errorf("with all full picked %d, want 2, which is the least full", i)
	}
}

func TestLeastHarm(t *testing.T) {
	v := oneVariant(t, 1, 2, 9, 0)
	v.Down[3] = true
	pick := func() int {
		t.Helper()
		first := (balance.LeastHarm{}).Pick(v, &fleet.Request{}, 0, 0)
		for random := range uint64(100) {
			if i := (balance.LeastHarm{}).Pick(v, &fleet.Request{}, 0, random<<57); i != first {
				t.Fatalf("picked %d and %d, of which one is worse", first, i)
			}
		}
		return first
	}
	if i := pick(); i != 0 {
		t.Errorf("without forecasts picked %d, want 0, the smallest batch", i)
	}
	v.Forecasts = []fleet.Forecast{{Misses: 0.5}, {Misses: 0.3}, {Misses: 0.1}, {}}
	if i := pick(); i != 2 {
		t.Errorf("picked %d, want 2, which harms least", i)
	}
	v.Forecasts[1].Misses = 0.1001 // as good as equal
	if i := pick(); i != 1 {
		t.Errorf("of two that harm alike picked %d, want 1, the smaller batch", i)
	}
	v.Held[1] = 750
	if i := pick(); i != 1 {
		t.Errorf("picked %d, want 1, which still has room", i)
	}
	v.Held[1] = 900
	if i := pick(); i != 2 {
		t.Errorf("picked %d, want 2: 1 has no room", i)
	}
}

// A batch of 50 fills a cache of the large model here, and does 33 requests a second.
func TestLeastHarmFillsCachesEvenly(t *testing.T) {
	const a, b = 1, 3
	v, work := coresident(t, 0)
	v.Table.Tasks[0].Deadline = 40 * time.Millisecond
	v.Forecasts = []fleet.Forecast{{}, {Misses: 0}, {}, {Misses: 1}}
	v.Held[a] = 3500 // of 10,000
	harm := balance.LeastHarm(work)
	harm.Output = 100
	for _, test := range []struct {
		what     string
		rate     float64
		deadline time.Duration
		want     int
	}{
		{"room for all that arrives", 39, 0, a},
		{"the caches are about to fill", 41, 0, b},
		{"full caches would be too slow", 41, 14 * time.Millisecond, a},
	} {
		v.Smoothed[0] = test.rate
		if i := picks(v, harm, fleet.Request{Deadline: test.deadline}, 1); i != test.want {
			t.Errorf("%s: picked %d, want %d", test.what, i, test.want)
		}
	}
	v.Smoothed[0] = 39
	v.Excess = []float32{0, 0, 0, 0.5} // half as slow again, so that they do less
	if i := picks(v, harm, fleet.Request{}, 1); i != b {
		t.Errorf("with a slow replica picked %d, want %d", i, b)
	}
}

// A large cache that the pace keeps from filling is no reason to leave smaller ones empty.
func TestLeastHarmLeavesASlowReplicaWithRoom(t *testing.T) {
	const small, large = 1, 3
	v, work := coresident(t, 0)
	v.Table.Tasks[0].Deadline = 40 * time.Millisecond
	v.Table.Replicas[large].KVTokens *= 10
	v.Held[small], v.InFlight[small] = 3500, 5   // of 10,000
	v.Held[large], v.InFlight[large] = 20_000, 9 // of 100,000
	harm := balance.LeastHarm(work)
	harm.Output = 100
	v.Smoothed[0] = 41 // the caches are about to fill
	for pace, want := range map[float64]int{0.5: large, 0.9: small} {
		v.Forecasts = []fleet.Forecast{{}, {Pace: 0.5}, {}, {Pace: pace}}
		if i := picks(v, harm, fleet.Request{}, 1); i != want {
			t.Errorf("with the large cache at a pace of %v of the deadline picked %d, want %d", pace, i, want)
		}
	}
}

// A decision that looks at half of the hosts reckons with the caches of all.
func TestLeastHarmFillsTheWholeFleet(t *testing.T) {
	const hosts = 2 * fleet.SampleHosts
	v, work := coresidentOn(t, make([]fleet.Host, hosts), 0)
	v.Table.Tasks[0].Deadline = 40 * time.Millisecond
	v.Sample(v.Table, 1)
	harm := balance.LeastHarm(work)
	harm.Output = 100
	v.Forecasts = slices.Repeat([]fleet.Forecast{{Misses: 1}}, 2*hosts)
	harmless := v.ReplicasOf(1)[3]
	v.Forecasts[harmless].Misses, v.Held[harmless] = 0, 3500 // of 10,000
	v.Smoothed[0] = 19.5 * hosts
	if i := picks(v, harm, fleet.Request{}, 1); i != harmless {
		t.Errorf("with room for all that arrives picked %d, want %d", i, harmless)
	}
	v.Smoothed[0] = 20.5 * hosts
	if i := picks(v, harm, fleet.Request{}, 1); i == harmless {
		t.Errorf("with caches that are about to fill picked %d, the fullest", i)
	}
}

// TestDistribution holds the frequencies of picks against their closed form by
// a chi-square test. Of n replicas with distinct loads, two drawn at random
// leave the one of rank r (0 the emptiest) with the probability that its
// partner is one of the n−1−r fuller: 2(n−1−r)/(n(n−1)).
func TestDistribution(t *testing.T) {
	for _, test := range []struct {
		name     string
		balancer balance.Balancer
		loads    []int32
		down     []int
		want     []float64
	}{
		{"smallest: ties are uniform", balance.SmallestBatch{}, []int32{1, 1, 3, 1}, nil, []float64{1. / 3, 1. / 3, 0, 1. / 3}},
		{"smallest: ties without those down", balance.SmallestBatch{}, []int32{1, 1, 3, 1}, []int{1}, []float64{.5, 0, 0, .5}},
		{"fitting: ties without those down", balance.SmallestFitting{}, []int32{1, 1, 3, 1}, []int{1}, []float64{.5, 0, 0, .5}},
		{"two: distinct loads", balance.PowerOfK{K: 2}, []int32{7, 1, 5, 3}, nil, []float64{0, 3. / 6, 1. / 6, 2. / 6}},
		{"two: equal loads are uniform", balance.PowerOfK{K: 2}, []int32{2, 2, 2, 2, 2}, nil, alike(5)},
		{"two: a pair", balance.PowerOfK{K: 2}, []int32{1, 0}, nil, []float64{0, 1}},
		{"two: one left", balance.PowerOfK{K: 2}, []int32{1, 0}, []int{1}, []float64{1, 0}},
		{"one of k: uniform whatever the load", balance.PowerOfK{K: 1}, []int32{7, 1, 5, 3}, nil, []float64{.25, .25, .25, .25}},
		{"k: equal loads are uniform", balance.PowerOfK{K: 3}, []int32{2, 2, 2, 2, 2, 2, 2}, nil, alike(7)},
		{"k: all are equal and drawn", balance.PowerOfK{K: 9}, []int32{2, 2, 2, 2, 2}, nil, alike(5)},
		{"k: two of six", balance.PowerOfK{K: 2}, []int32{0, 1, 2, 3, 4, 5}, nil, ranks(6, 2)},
		{"k: three of six", balance.PowerOfK{K: 3}, []int32{0, 1, 2, 3, 4, 5}, nil, ranks(6, 3)},
		{"k: five of sixteen", balance.PowerOfK{K: 5}, []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, nil, ranks(16, 5)},
		{"k: without those down", balance.PowerOfK{K: 2}, []int32{9, 0, 1, 9, 2}, []int{0, 3}, []float64{0, 2. / 3, 1. / 3, 0, 0}},
		{"k: all, so the emptiest", balance.PowerOfK{K: 4}, []int32{7, 1, 5, 3}, nil, []float64{0, 1, 0, 0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := oneVariant(t, test.loads...)
			for _, i := range test.down {
				v.Down[i] = true
			}
			holdFrequencies(t, test.want, func(random uint64) int {
				return test.balancer.Pick(v, &fleet.Request{}, 0, random)
			})
		})
	}
}

// alike is n equal probabilities.
func alike(n int) []float64 {
	p := make([]float64, n)
	for i := range p {
		p[i] = 1 / float64(n)
	}
	return p
}

// ranks is the probability that each of n distinct loads, the least first, is the
// least of k drawn: its partners are k−1 of those fuller, C(n−1−r, k−1) / C(n, k).
func ranks(n, k int) []float64 {
	p := make([]float64, n)
	for r := range n - k + 1 {
		p[r] = float64(combin.Binomial(n-1-r, k-1)) / float64(combin.Binomial(n, k))
	}
	return p
}

func holdFrequencies(t *testing.T, want []float64, pick func(random uint64) int) {
	t.Helper()
	const draws = 200_000
	rng := rand.NewPCG(1, 2)
	seen := make([]float64, len(want))
	for range draws {
		seen[pick(rng.Uint64())]++
	}
	var observed, expected []float64
	for i, p := range want {
		if p == 0 && seen[i] > 0 {
			t.Fatalf("replica %d was picked %v times, want never", i, seen[i])
		}
		if p > 0 {
			observed, expected = append(observed, seen[i]), append(expected, p*draws)
		}
	}
	if len(observed) < 2 {
		return
	}
	chi2 := stat.ChiSquare(observed, expected)
	if p := (distuv.ChiSquared{K: float64(len(observed) - 1)}).Survival(chi2); p < 0.001 {
		t.Errorf("picks %v, expected %v: chi-square %.1f, p = %.2g", observed, expected, chi2, p)
	}
}
