package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"gearshift/cmd/gearshift/scenario"
	"gearshift/env/evaluation"
	"gearshift/workloads"
)

// fleetOf is titan-rtx-opt with so many hosts.
func fleetOf(tb testing.TB, hosts int) *scenario.Scenario {
	tb.Helper()
	text, err := workloads.Scenario("titan-rtx-opt")
	if err != nil {
		tb.Fatal(err)
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
		tb.Fatal(err)
	}
	return s
}

// BenchmarkSimulationOfFleet plays 20,000 Poisson requests on fleets of so many
// replicas, each at 1.5 requests per second and host, on one core.
func BenchmarkSimulationOfFleet(b *testing.B) {
	for _, hosts := range []int{4, 22, 86, 342} {
		b.Run(fmt.Sprint(3*hosts), func(b *testing.B) {
			s := fleetOf(b, hosts)
			c, err := contestant(s, nil, "threshold", nil)
			if err != nil {
				b.Fatal(err)
			}
			list, err := evaluated(s, []string{fmt.Sprintf("poisson:%g", 1.5*float64(hosts))}, 20_000)
			if err != nil {
				b.Fatal(err)
			}
			plan := evaluation.Plan{Contestants: []evaluation.Contestant{c}, Workloads: list}
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
