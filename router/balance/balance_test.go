package balance_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"gearshift/router/balance"
	"gearshift/router/conformance"
	"gearshift/router/fleet"
)

func TestConformance(t *testing.T) {
	for _, table := range []*fleet.Table{conformance.Fleet(0), conformance.Fleet(8), conformance.FleetOf(25, 8)} {
		conformance.Balancer(t, table, balance.SmallestBatch{})
		conformance.Balancer(t, table, balance.SmallestFitting{})
		conformance.Balancer(t, table, balance.LeastHarm{})
		conformance.Balancer(t, table, balance.PowerOfTwo{})
	}
}

func TestByName(t *testing.T) {
	for _, name := range []string{"smallest-batch", "smallest-fitting", "least-harm", "power-of-two"} {
		b, err := balance.ByName(name)
		if err != nil || b.Name() != name {
			t.Errorf("ByName(%q) = %v, %v", name, b, err)
		}
	}
	_, err := balance.ByName("roulette")
	if err == nil || !strings.Contains(err.Error(), "smallest-batch, smallest-fitting, least-harm and power-of-two") {
		t.Errorf("the error %v does not list the balancers", err)
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
	v.Held[1] = 900
	if i := pick(); i != 2 {
		t.Errorf("picked %d, want 2: 1 has no room", i)
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
		{"two: distinct loads", balance.PowerOfTwo{}, []int32{7, 1, 5, 3}, nil, []float64{0, 3. / 6, 1. / 6, 2. / 6}},
		{"two: six replicas", balance.PowerOfTwo{}, []int32{0, 1, 2, 3, 4, 5}, nil, []float64{5. / 15, 4. / 15, 3. / 15, 2. / 15, 1. / 15, 0}},
		{"two: equal loads are uniform", balance.PowerOfTwo{}, []int32{2, 2, 2, 2, 2}, nil, []float64{.2, .2, .2, .2, .2}},
		{"two: without those down", balance.PowerOfTwo{}, []int32{7, 1, 5, 3}, []int{1}, []float64{0, 0, 1. / 3, 2. / 3}},
		{"two: a pair", balance.PowerOfTwo{}, []int32{1, 0}, nil, []float64{0, 1}},
		{"two: one left", balance.PowerOfTwo{}, []int32{1, 0}, []int{1}, []float64{1, 0}},
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
