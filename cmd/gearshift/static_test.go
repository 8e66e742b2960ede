package main

import (
	"flag"
	"fmt"
	"math"
	"testing"

	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/workloads"
)

var staticSeeds = flag.Int("static.seeds", 10, "seeds of TestStaticWindows, which with -v prints rows of docs/simulator.md")

// The static sizes of titan-rtx-opt have the windows near peak performance that
// docs/simulator.md says (LBE-26, LBE-27), within half of a run's standard deviation,
// so that an engine or a profile that moves them shows.
func TestStaticWindows(t *testing.T) {
	s, err := scenario.Load("titan-rtx-opt")
	if err != nil {
		t.Fatal(err)
	}
	work, err := s.Evaluated([]string{"u1", "u2"}, s.Evaluation.Requests)
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string][]float64{}
	for _, seed := range workloads.Seeds(workloads.Evaluation, *staticSeeds) {
		for _, r := range played(t, s, []string{"static:opt-6.7b", "static:opt-1.3b"}, work, seed) {
			for level, n := range r.Windows {
				key := fmt.Sprint(r.Policy, " ", r.Workload, " ", level)
				runs[key] = append(runs[key], n)
			}
		}
	}
	for _, want := range []struct {
		key          string
		mean, within float64
	}{
		{"static:opt-6.7b u1 1.00", 348, 80},
		{"static:opt-6.7b u1 0.94", 729, 150},
		{"static:opt-1.3b u1 0.94", 169, 28},
		{"static:opt-6.7b u2 1.00", 1297, 250},
		{"static:opt-6.7b u2 0.94", 2619, 450},
		{"static:opt-1.3b u2 0.94", 160, 20},
		// Only windows without HellaSwag reach it, and there are none (LBE-26).
		{"static:opt-1.3b u1 0.96", 0, 0},
		{"static:opt-1.3b u2 0.96", 0, 0},
	} {
		mean, sd := spread(runs[want.key])
		t.Logf("%s: %.0f ± %.0f", want.key, mean, sd)
		if len(runs[want.key]) != *staticSeeds || math.Abs(mean-want.mean) > want.within {
			t.Errorf("%s: %.0f ± %.0f windows in %d runs, want %v ± %v", want.key, mean, sd, len(runs[want.key]), want.mean, want.within)
		}
	}
}

// Each size alone holds the deadlines up to its own rate, as docs/simulator.md says
// (LBE-23).
func TestStaticKnees(t *testing.T) {
	s, err := scenario.Load("titan-rtx-opt")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		policy string
		seeds  int
		met    map[float64]float64 // by rate
	}{
		{"static:opt-6.7b", 60, map[float64]float64{0.5: 0.99, 1: 0.97, 1.5: 0.88, 2: 0.63, 3: 0.23, 4: 0.09}},
		{"static:opt-1.3b", 20, map[float64]float64{28: 1, 32: 0.87, 36: 0.56, 48: 0.22}},
		{"static:opt-125m", 5, map[float64]float64{48: 1}},
	} {
		for rate, want := range c.met {
			work, err := s.Evaluated([]string{fmt.Sprintf("stable:%g", rate)}, s.Evaluation.Requests)
			if err != nil {
				t.Fatal(err)
			}
			got := played(t, s, []string{c.policy}, work, workloads.Seeds(workloads.Evaluation, c.seeds)...)[0].DeadlineMet.Mean
			t.Logf("%s at %g: %.3f", c.policy, rate, got)
			if math.Abs(got-want) > 0.03 {
				t.Errorf("%s at %g a second: %.3f of the deadlines, want %v", c.policy, rate, got, want)
			}
		}
	}
}

// played is the results of the policies on the workloads.
func played(t *testing.T, s *scenario.Scenario, refs []string, work []evaluation.Workload, seeds ...uint64) []evaluation.Result {
	t.Helper()
	list, err := policies.Contestants(s, nil, refs, nil)
	if err != nil {
		t.Fatal(err)
	}
	plan := evaluation.Plan{Contestants: list, Workloads: work, Seeds: seeds}
	results, err := plan.Evaluate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// spread is the mean and the standard deviation.
func spread(values []float64) (mean, sd float64) {
	for _, x := range values {
		mean += x / float64(len(values))
	}
	for _, x := range values {
		sd += (x - mean) * (x - mean) / float64(len(values)-1)
	}
	return mean, math.Sqrt(sd)
}
