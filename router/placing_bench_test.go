package router_test

import (
	"math/rand/v2"
	"testing"

	"gearshift/router/fleet"
	"gearshift/router/nn"
	"gearshift/router/observation"
	"gearshift/router/policy"
)

// placing is a policy that places, of the built-in preset's size, with random
// weights.
func placing(t testing.TB, table *fleet.Table) *policy.Placing {
	t.Helper()
	three, rates := []float64{1, 1, 1}, []float64{6, 6, 6}
	spec, err := observation.NewSpec(table,
		[]observation.Feature{
			{Kind: observation.InFlight, Scale: three},
			{Kind: observation.KVUse, Scale: three},
			{Kind: observation.Pace, Scale: three},
			{Kind: observation.Harm, Scale: three},
			{Kind: observation.HostRate, Scale: rates},
			{Kind: observation.LogHostRate, Scale: rates},
		},
		observation.Feature{Kind: observation.VariantOneHot},
		observation.Feature{Kind: observation.Quality, Scale: []float64{1}},
		observation.Feature{Kind: observation.Gain, Scale: []float64{1}},
		observation.Feature{Kind: observation.InFlight, Scale: []float64{20}},
		observation.Feature{Kind: observation.LogInFlight, Scale: []float64{3}},
		observation.Feature{Kind: observation.KVUse, Scale: []float64{1}},
		observation.Feature{Kind: observation.Pace, Scale: []float64{1}},
		observation.Feature{Kind: observation.Harm, Scale: []float64{1}},
		observation.Feature{Kind: observation.Neighbours, Scale: []float64{20, 4}},
	)
	if err != nil {
		t.Fatal(err)
	}
	net, err := nn.New(spec.Inputs(), 64, 64, 1)
	if err != nil {
		t.Fatal(err)
	}
	net.Randomise(rand.New(rand.NewPCG(5, 6)))
	p, err := (&policy.Maker{Table: table}).Placing("placing@1", spec, net)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlacingAllocatesNothing(t *testing.T) {
	core := newCore(t, 512, whole)
	setPolicy(t, core, placing(t, core.Table()))
	allocatesNothing(t, core)
}

// BenchmarkPlacing is BenchmarkDecision where the policy places.
func BenchmarkPlacing(b *testing.B) {
	core := newCore(b, 512, whole)
	setPolicy(b, core, placing(b, core.Table()))
	measure(b, core)
}
