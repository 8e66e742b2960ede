package policies

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
)

// resultsOf are results on two workloads: for each policy the utility of each
// run, the same on both.
func resultsOf(names []string, runs map[string][]float64) []evaluation.Result {
	var results []evaluation.Result
	for _, name := range names {
		for _, w := range []string{"u1", "stable:1", "u2"} {
			results = append(results, evaluation.Result{Policy: name, Workload: w, Runs: runs[name], Utility: evaluation.Bootstrap(runs[name])})
		}
	}
	return results
}

func held(t *testing.T, policy, rule []float64) HeldOut {
	t.Helper()
	names := []string{"policy", "weak", "strong"}
	h, err := compareHeldOut(resultsOf(names, map[string][]float64{
		"policy": policy, "weak": {0.1, 0.1, 0.1, 0.1}, "strong": rule,
	}), []string{"u1", "u2"}, 4, evaluation.MeanUtility)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHeldOutComparison(t *testing.T) {
	h := held(t, []float64{0.82, 0.62, 0.92, 0.72}, []float64{0.8, 0.6, 0.9, 0.7})
	if len(h.Policies) != 3 || h.BestRule != "strong" || !h.Better() {
		t.Fatalf("%+v", h)
	}
	// Runs differ by far more than policies: only pairing shows the margin.
	if m := h.Margin; m.Mean < 0.0199 || m.Mean > 0.0201 || m.Lo < 0.0199 {
		t.Errorf("margin %+v, want 0.02 in each run", m)
	}
	if tie := held(t, []float64{0.82, 0.58, 0.93, 0.67}, []float64{0.8, 0.6, 0.9, 0.7}); tie.Better() {
		t.Errorf("a margin of chance passes: %+v", tie.Margin)
	}
	if _, err := compareHeldOut(nil, []string{"u1"}, 4, evaluation.MeanUtility); err == nil {
		t.Error("a comparison with nobody passes")
	}
}

func TestGate(t *testing.T) {
	entry := func(v any) checkpoints.Entry {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return checkpoints.Entry{Name: "mine", Version: 3, Meta: checkpoints.Meta{Evaluation: b}}
	}
	rule := []float64{0.8, 0.6, 0.9, 0.7}
	var table bytes.Buffer
	if err := Admit(entry(Evaluation{HeldOut: held(t, []float64{0.9, 0.7, 1, 0.8}, rule)}), PromotionIn("mine.db"), &table); err != nil || table.Len() > 0 {
		t.Errorf("a better policy: %v, %s", err, &table)
	}
	err := Admit(entry(Evaluation{HeldOut: held(t, rule, rule)}), PromotionIn("mine.db"), &table)
	if err == nil || !strings.Contains(err.Error(), "mine@3") || !strings.Contains(err.Error(), "strong") {
		t.Errorf("an equal policy: %v", err)
	}
	if want := "over the best rule, strong, by +0.0000 (+0.0000 to +0.0000), paired over 4 seeds: level; promote the rule: gearshift policy promote strong --store mine.db,"; !strings.Contains(err.Error(), want) {
		t.Errorf("an equal policy: %v, want %q", err, want)
	}
	for _, want := range []string{"POLICY", "u1", "u2", "policy", "weak", "strong", "0.750"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the refusal's table lacks %q:\n%s", want, &table)
		}
	}
	if err := Admit(entry(map[string]any{}), PromotionIn("mine.db"), &table); err == nil || !strings.Contains(err.Error(), "no stored comparison") {
		t.Errorf("a policy without a comparison: %v", err)
	}
}

// A policy that is better than the best rule is to be promoted; where it is not, the rule is.
func TestConclusions(t *testing.T) {
	for _, c := range []struct {
		rule   string
		lo, hi float64
		want   string
	}{
		{"slackfit:0.93", 0.001, 0.003, "mine@3 on u1 and u2: over the best rule, slackfit:0.93, by +0.0020 (+0.0010 to +0.0030), paired over 10 seeds: better\n" +
			"better than the best rule; promote it: gearshift policy promote mine@3 --store s.db\n"},
		{"slackfit:0.93", -0.003, 0.001, "mine@3 on u1 and u2: over the best rule, slackfit:0.93, by -0.0010 (-0.0030 to +0.0010), paired over 10 seeds: level\n" +
			"level with the best rule; promote the rule: gearshift policy promote slackfit:0.93 --store s.db\n"},
		{"slackfit:0.93", 0, 0, "mine@3 on u1 and u2: over the best rule, slackfit:0.93, by +0.0000 (+0.0000 to +0.0000), paired over 10 seeds: level\n" +
			"level with the best rule; promote the rule: gearshift policy promote slackfit:0.93 --store s.db\n"},
		{"static:small", -0.003, -0.001, "mine@3 on u1 and u2: over the best rule, static:small, by -0.0020 (-0.0030 to -0.0010), paired over 10 seeds: worse\n" +
			"worse than the best rule; promote the rule: gearshift policy promote static:small --store s.db (it was evaluated alone, with all of the hosts' memory)\n"},
	} {
		v := evaluation.Verdict{
			Policy: "mine@3", Rule: c.rule, Seeds: 10, Workloads: []string{"u1", "u2"},
			Margin: evaluation.Interval{Mean: (c.lo + c.hi) / 2, Lo: c.lo, Hi: c.hi},
		}
		if got := Conclusion(v, PromotionIn("s.db")); got != c.want {
			t.Errorf("from %v to %v:\n%swant\n%s", c.lo, c.hi, got, c.want)
		}
	}
}
