package main

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/workloads"
)

// BenchmarkSimulation plays ten runs of 10,000 requests of U1 on titan-rtx-opt, as eval
// does, with all that an evaluation does beside: of one rule, and of three on one core and
// on two.
//
//	go test -bench Simulation ./cmd/gearshift
func BenchmarkSimulation(b *testing.B) {
	s, err := scenario.Load("titan-rtx-opt")
	if err != nil {
		b.Fatal(err)
	}
	rules := []string{"static:opt-1.3b", "threshold", "slackfit"}
	for _, ref := range rules {
		b.Run(ref, func(b *testing.B) {
			play := newSimulation(b, s, 10, "u1", ref)
			for b.Loop() {
				play.once(b)
			}
			b.ReportMetric(play.speed(), "requests/s")
		})
	}
	b.Run("two-cores", func(b *testing.B) { simulateOnTwo(b, newSimulation(b, s, 10, "u1", rules...)) })
}

// simulateOnTwo plays on one core and on two in turn: what else a machine does changes
// from one second to the next, and its cores need not be equally quick.
func simulateOnTwo(b *testing.B, one *simulation) {
	if min(runtime.NumCPU(), runtime.GOMAXPROCS(0)) < 2 {
		b.Skip("fewer than two cores")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	two := *one
	for b.Loop() {
		runtime.GOMAXPROCS(1)
		one.once(b)
		runtime.GOMAXPROCS(2)
		two.once(b)
	}
	b.ReportMetric(two.speed(), "requests/s")
	b.ReportMetric(one.speed(), "one-core-requests/s")
	b.ReportMetric(two.speed()/one.speed(), "x-one-core")
}

// BenchmarkSimulationOfFleet plays Poisson requests on fleets of so many replicas,
// 1.5 a second for each host, on one core.
func BenchmarkSimulationOfFleet(b *testing.B) {
	for _, hosts := range []int{4, 22, 86, 342} {
		b.Run(fmt.Sprint(3*hosts), func(b *testing.B) {
			play := newSimulation(b, fleetOf(b, hosts), 1, fmt.Sprintf("poisson:%g", 1.5*float64(hosts)), "threshold")
			for b.Loop() {
				play.once(b)
			}
			b.ReportMetric(play.speed(), "requests/s")
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

// simulation is an evaluation that is played again and again, each time on other seeds.
type simulation struct {
	plan     evaluation.Plan
	seeds    int
	next     uint64 // seed
	requests int
	took     time.Duration
}

func newSimulation(b *testing.B, s *scenario.Scenario, seeds int, workload string, refs ...string) *simulation {
	b.Helper()
	list, err := s.Evaluated([]string{workload}, s.Evaluation.Requests)
	if err != nil {
		b.Fatal(err)
	}
	plan := evaluation.Plan{Workloads: list}
	for _, ref := range refs {
		c, err := policies.Contestant(s, nil, ref, nil)
		if err != nil {
			b.Fatal(err)
		}
		plan.Contestants = append(plan.Contestants, c)
	}
	b.ReportAllocs()
	return &simulation{plan: plan, seeds: seeds}
}

// once plays the next seeds, as many at a time as there are cores.
func (s *simulation) once(b *testing.B) {
	s.plan.Seeds = nil
	for range s.seeds {
		s.plan.Seeds = append(s.plan.Seeds, workloads.Seed(workloads.Validation, s.next))
		s.next++
	}
	began := time.Now()
	results, err := s.plan.Evaluate(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	s.took += time.Since(began)
	for i := range results {
		s.requests += results[i].Requests
	}
}

// speed is in requests per second.
func (s *simulation) speed() float64 { return float64(s.requests) / s.took.Seconds() }
