package learning_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gearshift/env/evaluation"
	"gearshift/internal/training/policies"
	"gearshift/workloads"
)

// inCharge is the rule of a router without a file.
const inCharge = "universal"

// tuned lists rules of scenarios that list none, found by eval --tune.
var tuned = map[string][]string{"tiny": {"task-aware:0.965,0.06,1.15,1.85,4", "universal"}}

// After a thousand requests a router without a file comes near one with the true scenario and its tuned
// rules, judged by the deadlines and qualities that it does not know. FIRST_MINUTE_SEEDS=10 prints the figures
// of docs/guides/first-minute.md.
func TestFirstMinute(t *testing.T) {
	names, seeds, requests := []string{"tiny"}, 2, 2000
	if n, err := strconv.Atoi(os.Getenv("FIRST_MINUTE_SEEDS")); err == nil {
		names, seeds, requests = []string{"tiny", "titan-rtx-opt"}, n, 10_000
	}
	for _, name := range names {
		truth := builtin(t, name)
		work, err := truth.Evaluated([]string{"u1"}, requests)
		if err != nil {
			t.Fatal(err)
		}
		all := append(tuned[name], truth.Evaluation.Rules...)
		contestants, err := policies.Contestants(truth, nil, all, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		rules := len(contestants)
		for _, rule := range slices.Compact(append(all, inCharge)) {
			if !strings.HasPrefix(rule, "task-threshold") { // whose limits by task know which task each request is of
				f := asked(t, truth, truth.Tasks[0].DeadlineMS)
				contestants = append(contestants, f.calibrated(t, rule))
			}
		}
		for _, declared := range []float64{0, truth.Tasks[0].DeadlineMS} {
			f := asked(t, truth, declared)
			x := f.learns(t, "u1", inCharge, 1000, seedOf(100))
			c := f.contestant(t, x, inCharge)
			if c.Name = fmt.Sprintf("learned, deadline guessed: %.3g ms", f.begun.Tasks[0].DeadlineMS); declared > 0 {
				c.Name = "learned, deadline declared"
			}
			_, scored := x.scores.Task(0, true)
			t.Logf("%s: %s: qualities scored: %v, %v", name, c.Name, scored, x.table.Tasks[0].Quality)
			contestants = append(contestants, c)
		}
		plan := evaluation.Plan{Contestants: contestants, Workloads: work, Seeds: workloads.Seeds(workloads.Evaluation, seeds), Judge: truth.Table().Tasks}
		results, err := plan.Evaluate(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		best := results[0].Utility.Mean
		for _, r := range results[:rules] {
			best = max(best, r.Utility.Mean)
		}
		for i, r := range results {
			t.Logf("%s: %s: utility %.4f, %+.4f to the best tuned rule, in time %.3f", name, r.Policy, r.Utility.Mean, r.Utility.Mean-best, r.DeadlineMet.Mean)
			if bound := 0.05; i == len(results)-1 && r.Utility.Mean < best-bound {
				t.Errorf("%s: with the deadline declared it earns %.4f, more than %v below %.4f", name, r.Utility.Mean, bound, best)
			}
		}
	}
}
