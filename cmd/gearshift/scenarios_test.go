package main

import (
	"context"
	"testing"

	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/workloads"
)

// In every built-in scenario that stands for a real fleet the choice matters:
// each size, alone with the whole memory, is the best of all at some rate of the
// sweep; at its lowest the largest meets its deadlines, at its highest (but for the
// paper's own sweep, which ends sooner) the smallest does not.
func TestEachSizeIsBestSomewhere(t *testing.T) {
	for _, name := range []string{"titan-rtx-opt", "a100-modern", "five-sizes"} {
		s, err := scenario.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		list, err := s.Evaluated([]string{"stable"}, 0)
		if err != nil {
			t.Fatal(err)
		}
		var refs []string
		for _, v := range s.Variants {
			refs = append(refs, "static:"+v.Name)
		}
		statics, err := policies.Contestants(s, nil, refs, nil)
		if err != nil {
			t.Fatal(err)
		}
		plan := evaluation.Plan{Contestants: statics, Workloads: list, Seeds: workloads.Seeds(workloads.Validation, 1)}
		results, err := plan.Evaluate(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		utility := func(v, rate int) float64 { return results[v*(len(list)+1)+rate].Utility.Mean }
		won := make([]int, len(refs))
		for rate := range list {
			best := 0
			for v := range refs {
				if utility(v, rate) > utility(best, rate) {
					best = v
				}
			}
			won[best]++
		}
		for v, n := range won {
			if n == 0 {
				t.Errorf("%s: %s is the best nowhere", name, refs[v])
			}
		}
		last := len(refs) - 1
		if met := results[last*(len(list)+1)].DeadlineMet.Mean; met < 0.97 {
			t.Errorf("%s: at the lowest rate %s meets %.3f of the deadlines", name, refs[last], met)
		}
		if met := results[len(list)-1].DeadlineMet.Mean; met > 0.95 && name != "titan-rtx-opt" {
			t.Errorf("%s: at the highest rate %s still meets %.3f of the deadlines", name, refs[0], met)
		}
	}
}
