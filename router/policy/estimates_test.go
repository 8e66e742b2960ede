package policy_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/nn"
	"gearshift/router/observation"
	"gearshift/router/policy"
)

// What universal expects, with its weight of others, is what it chooses by.
func TestEstimatesAreWhatUniversalChoosesBy(t *testing.T) {
	table := conformance.Fleet(4)
	const others = 0.5
	rule, err := maker(table).Parse("universal:0.1,0.015,0.5")
	if err != nil {
		t.Fatal(err)
	}
	u := rule.(*policy.Universal)
	rng := rand.New(rand.NewPCG(4, 3))
	estimates := make([]observation.Estimate, len(table.Replicas))
	for k := range 200 {
		v, r := down(busyView(table, rng), k%4%3), &fleet.Request{Task: k % 4, PromptTokens: 90}
		clear(estimates)
		u.Estimate(estimates, v, r)
		best, highest := -1, math.Inf(-1)
		for i, x := range estimates {
			if value := -x.Short - others*x.Loss; v.Available(i) && value > highest+1e-9 {
				best, highest = i, value
			}
			if !v.Available(i) && x != (observation.Estimate{}) {
				t.Errorf("replica %d is not available, and has %+v", i, x)
			}
		}
		if got := u.Place(v, r, nil); got != best {
			t.Fatalf("chose %d, expects the most of %d: %+v, %+v", got, best, estimates[got], estimates[best])
		}
	}
	v, r := busyView(table, rng), &fleet.Request{Task: 1, PromptTokens: 90}
	if n := testing.AllocsPerRun(100, func() { u.Estimate(estimates, v, r) }); n != 0 {
		t.Errorf("Estimate allocates %v times", n)
	}
}

// rows is a policy that values replicas by estimates, of so many networks of the size of preset default, with
// random weights.
func rows(t testing.TB, table *fleet.Table, networks int) *policy.Placing {
	t.Helper()
	three, one := []float64{1, 1, 1}, []float64{1}
	spec, err := observation.NewSpec(table, []observation.Feature{
		{Kind: observation.TaskOneHot}, {Kind: observation.InFlight, Scale: three}, {Kind: observation.KVUse, Scale: three},
		{Kind: observation.Pace, Scale: three}, {Kind: observation.Harm, Scale: three},
		{Kind: observation.HostRate, Scale: three}, {Kind: observation.LogHostRate, Scale: three},
	},
		observation.Feature{Kind: observation.Estimates, Rule: "universal"}, observation.Feature{Kind: observation.VariantOneHot},
		observation.Feature{Kind: observation.Quality, Scale: one}, observation.Feature{Kind: observation.Gain, Scale: one},
		observation.Feature{Kind: observation.LogInFlight, Scale: one}, observation.Feature{Kind: observation.KVUse, Scale: one},
		observation.Feature{Kind: observation.Harm, Scale: one})
	if err != nil {
		t.Fatal(err)
	}
	var members []*nn.MLP
	for range networks {
		net, err := nn.New(spec.Inputs(), 64, 64, 1)
		if err != nil {
			t.Fatal(err)
		}
		net.Randomise(rand.New(rand.NewPCG(5, 6)))
		members = append(members, net)
	}
	mean, err := nn.Mean(members...)
	if err != nil {
		t.Fatal(err)
	}
	p, err := maker(table).Placing("rows@1", spec, mean)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// go test ./router/policy -run '^$' -bench PlacingByEstimates
func BenchmarkPlacingByEstimates(b *testing.B) {
	table := conformance.Fleet(0)
	v := arrivals(fill(fill(fill(idle(table), 2, 9, 300), 1, 30, 350), 0, 10, 300), 24)
	r := &fleet.Request{Task: copa, PromptTokens: 90}
	for _, networks := range []int{1, 2, 4} {
		b.Run(fmt.Sprint(networks), func(b *testing.B) {
			p := rows(b, table, networks)
			scratch := make([]float32, p.Scratch())
			b.ReportAllocs()
			for b.Loop() {
				p.Place(v, r, scratch)
			}
		})
	}
}
