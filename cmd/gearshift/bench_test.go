package main

import (
	"context"
	"testing"

	"gearshift/cmd/gearshift/scenario"
	"gearshift/env/evaluation"
	"gearshift/workloads"
)

// BenchmarkSimulation plays runs of 10,000 requests of U1 on titan-rtx-opt, on
// one core: go test -bench Simulation ./cmd/gearshift
func BenchmarkSimulation(b *testing.B) {
	s, err := scenario.Load("titan-rtx-opt")
	if err != nil {
		b.Fatal(err)
	}
	for _, ref := range []string{"static:opt-1.3b", "threshold", "slackfit"} {
		b.Run(ref, func(b *testing.B) {
			c, err := contestant(s, nil, ref, nil)
			if err != nil {
				b.Fatal(err)
			}
			list, err := evaluated(s, []string{"u1"}, s.Evaluation.Requests)
			if err != nil {
				b.Fatal(err)
			}
			plan := evaluation.Plan{Contestants: []evaluation.Contestant{c}, Workloads: list}
			b.ReportAllocs()
			requests := 0
			for i := 0; b.Loop(); i++ {
				plan.Seeds = []uint64{workloads.Seed(workloads.Validation, uint64(i))} // one seed: one core
				results, err := plan.Evaluate(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				requests += results[0].Requests
			}
			b.ReportMetric(float64(requests)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
