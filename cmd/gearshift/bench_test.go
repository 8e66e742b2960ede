package main

import (
	"context"
	"runtime"
	"testing"

	"gearshift/cmd/gearshift/scenario"
	"gearshift/env/evaluation"
	"gearshift/workloads"
)

// BenchmarkSimulation plays runs of 10,000 requests of U1 on titan-rtx-opt, with
// all that an evaluation does beside: on one core, and two seeds on two.
//
//	go test -bench Simulation ./cmd/gearshift
func BenchmarkSimulation(b *testing.B) {
	for _, ref := range []string{"static:opt-1.3b", "threshold", "slackfit"} {
		b.Run(ref, func(b *testing.B) { simulate(b, ref, 1) })
	}
	b.Run("two-cores/threshold", func(b *testing.B) { simulate(b, "threshold", 2) })
}

// simulate plays so many seeds at the same time.
func simulate(b *testing.B, ref string, seeds int) {
	if min(runtime.NumCPU(), runtime.GOMAXPROCS(0)) < seeds {
		b.Skipf("fewer than %d cores", seeds)
	}
	s, err := scenario.Load("titan-rtx-opt")
	if err != nil {
		b.Fatal(err)
	}
	c, err := contestant(s, nil, ref, nil)
	if err != nil {
		b.Fatal(err)
	}
	list, err := evaluated(s, []string{"u1"}, s.Evaluation.Requests)
	if err != nil {
		b.Fatal(err)
	}
	plan := evaluation.Plan{Contestants: []evaluation.Contestant{c}, Workloads: list, Seeds: make([]uint64, seeds)}
	b.ReportAllocs()
	requests, next := 0, uint64(0)
	for b.Loop() {
		for i := range plan.Seeds {
			plan.Seeds[i] = workloads.Seed(workloads.Validation, next)
			next++
		}
		results, err := plan.Evaluate(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		requests += results[0].Requests
	}
	b.ReportMetric(float64(requests)/b.Elapsed().Seconds(), "requests/s")
}
