package main

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"gearshift/cmd/gearshift/policies"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/env/evaluation"
	"gearshift/workloads"
)

// BenchmarkSimulation plays ten runs of 10,000 requests of U1 on titan-rtx-opt, as eval
// does, with all that an evaluation does beside: on one core, and on two.
//
//	go test -bench Simulation ./cmd/gearshift
func BenchmarkSimulation(b *testing.B) {
	s, err := scenario.Load("titan-rtx-opt")
	if err != nil {
		b.Fatal(err)
	}
	for _, ref := range []string{"static:opt-1.3b", "threshold", "slackfit"} {
		b.Run(ref, func(b *testing.B) { simulate(b, s, ref, "u1", 10) })
	}
	b.Run("two-cores/threshold", func(b *testing.B) {
		if min(runtime.NumCPU(), runtime.GOMAXPROCS(0)) < 2 {
			b.Skip("fewer than two cores")
		}
		simulate(b, s, "threshold", "u1", 10)
	})
}

// BenchmarkSimulationOfFleet plays Poisson requests on fleets of so many replicas,
// 1.5 a second for each host, on one core.
func BenchmarkSimulationOfFleet(b *testing.B) {
	for _, hosts := range []int{4, 22, 86, 342} {
		b.Run(fmt.Sprint(3*hosts), func(b *testing.B) {
			simulate(b, fleetOf(b, hosts), "threshold", fmt.Sprintf("poisson:%g", 1.5*float64(hosts)), 1)
		})
	}
}

// fleetOf is titan-rtx-opt with so many hosts.
func fleetOf(b *testing.B, hosts int) *scenario.Scenario {
	b.Helper()
	text, err := workloads.Scenario("titan-rtx-opt")
	if err != nil {
		b.Fatal(err)
	}
	var list, names []string
	for h := range hosts {
		list = append(list, fmt.Sprintf("  - {name: gpu%d, memory: 24GiB}\n", h))
		names = append(names, fmt.Sprintf("gpu%d", h))
	}
	larger := regexp.MustCompile(`(?m)^hosts:\n(?:  - .*\n)+`).ReplaceAllString(string(text), "hosts:\n"+strings.Join(list, ""))
	larger = strings.ReplaceAll(larger, "[gpu0, gpu1, gpu2, gpu3]", "["+strings.Join(names, ", ")+"]")
	s, err := scenario.Parse("fleet.yaml", []byte(larger))
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// simulate plays so many seeds, as many at a time as there are cores.
func simulate(b *testing.B, s *scenario.Scenario, ref, workload string, seeds int) {
	c, err := policies.Contestant(s, nil, ref, nil)
	if err != nil {
		b.Fatal(err)
	}
	list, err := s.Evaluated([]string{workload}, s.Evaluation.Requests)
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
