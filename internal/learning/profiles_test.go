package learning_test

import (
	"math"
	"slices"
	"testing"

	"gearshift/env/fit"
	"gearshift/router/drift"
	"gearshift/router/profile"
)

// offs returns by how much the profile's times are off from the true one's, over the loads of the answers: of a
// token, and of the first one.
func offs(p, truth *profile.Profile, answers []drift.Timing) (pace, first []float64) {
	for i := range answers {
		a := &answers[i]
		pace = append(pace, math.Abs(fit.Pace(p, &a.During)/fit.Pace(truth, &a.During)-1))
		j := profile.Joining{Prompt: a.Prompt, Sequences: int(a.Before.Sequences), Held: int(a.Before.Context), Neighbours: a.Before.Neighbours}
		first = append(first, math.Abs(p.First(j)/truth.First(j)-1))
	}
	return pace, first
}

// After a thousand requests the latency models are those of the engines, over the loads that were seen.
func TestProfilesAreLearned(t *testing.T) {
	for _, name := range []string{"tiny", "titan-rtx-opt"} {
		f := asked(t, builtin(t, name), 0)
		x := f.learns(t, "u1", "slackfit", 1000, seedOf(1))
		truth, begun, now := f.truth.Profiles(), f.begins(), x.learner.Now()
		for i, r := range x.table.Replicas {
			own := slices.DeleteFunc(slices.Clone(x.answers), func(a drift.Timing) bool { return a.Replica != i })
			if len(own) < 30 {
				continue
			}
			before, beforeFirst := offs(begun[i], truth[i], own)
			pace, first := offs(now[i], truth[i], own)
			t.Logf("%s %s: %d answers: pace off %.3f (p95 %.3f), guessed %.3f (%.3f); first %.3f (p95 %.3f), guessed %.3f (%.3f)", name, r.Name, len(own),
				fit.Quantile(pace, .5), fit.Quantile(pace, .95), fit.Quantile(before, .5), fit.Quantile(before, .95),
				fit.Quantile(first, .5), fit.Quantile(first, .95), fit.Quantile(beforeFirst, .5), fit.Quantile(beforeFirst, .95))
			if fit.Quantile(pace, 0.95) > 0.1 || fit.Quantile(first, 0.95) > 0.1 {
				t.Errorf("%s: off by more than a tenth: %+v, true %+v", r.Name, *now[i], *truth[i])
			}
		}
	}
}
