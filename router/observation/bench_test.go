package observation_test

import (
	"testing"

	"gearshift/router/fleet"
	"gearshift/router/observation"
)

// BenchmarkEncode encodes what a policy of a scenario without an observation of its own sees.
func BenchmarkEncode(b *testing.B) {
	table := measured()
	three := func(k observation.Kind) observation.Feature {
		return observation.Feature{Kind: k, Scale: []float64{1, 1, 1}}
	}
	usual := []observation.Feature{
		{Kind: observation.TaskOneHot}, three(observation.InFlight), three(observation.KVUse), three(observation.Pace), three(observation.Harm),
		{Kind: observation.SmoothedRate, Scale: []float64{1, 1}}, {Kind: observation.LogSmoothedRate, Scale: []float64{1, 1}},
		{Kind: observation.Rate, Scale: []float64{1}}, {Kind: observation.LogRate, Scale: []float64{1}},
	}
	for _, x := range []struct {
		name     string
		features []observation.Feature
		view     func(*fleet.Table) *fleet.View
	}{{"usual", usual, loaded}, {"facts", append(usual, facts()...), changing}} {
		b.Run(x.name, func(b *testing.B) {
			s, err := observation.NewSpec(table, x.features)
			if err != nil {
				b.Fatal(err)
			}
			e, err := observation.NewEncoder(s, table, nil)
			if err != nil {
				b.Fatal(err)
			}
			v, r, to := x.view(table), &fleet.Request{Task: 1}, make([]float32, e.Dim())
			b.ReportAllocs()
			for b.Loop() {
				e.Encode(to, v, r)
			}
		})
	}
}
