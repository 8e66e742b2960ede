package judging

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
	}), []string{"u1", "u2"}, 4)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHeldOutComparison(t *testing.T) {
	h := held(t, []float64{0.82, 0.62, 0.92, 0.72}, []float64{0.8, 0.6, 0.9, 0.7})
	if len(h.Policies) != 3 || h.BestRule != "strong" || !h.Beats() {
		t.Fatalf("%+v", h)
	}
	// Runs differ by far more than policies: only pairing shows the margin.
	if m := h.Margin; m.Mean < 0.0199 || m.Mean > 0.0201 || m.Lo < 0.0199 {
		t.Errorf("margin %+v, want 0.02 in each run", m)
	}
	if tie := held(t, []float64{0.82, 0.58, 0.93, 0.67}, []float64{0.8, 0.6, 0.9, 0.7}); tie.Beats() {
		t.Errorf("a margin of chance passes: %+v", tie.Margin)
	}
	if _, err := compareHeldOut(nil, []string{"u1"}, 4); err == nil {
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
	if err := Admit(entry(Standing{HeldOut: held(t, []float64{0.9, 0.7, 1, 0.8}, rule)}), &table); err != nil || table.Len() > 0 {
		t.Errorf("a better policy: %v, %s", err, &table)
	}
	err := Admit(entry(Standing{HeldOut: held(t, rule, rule)}), &table)
	if err == nil || !strings.Contains(err.Error(), "mine@3") || !strings.Contains(err.Error(), "strong") {
		t.Errorf("an equal policy: %v", err)
	}
	for _, want := range []string{"POLICY", "u1", "u2", "policy", "weak", "strong", "0.750"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the refusal's table lacks %q:\n%s", want, &table)
		}
	}
	if err := Admit(entry(map[string]any{}), &table); err == nil || !strings.Contains(err.Error(), "no stored comparison") {
		t.Errorf("a policy without a comparison: %v", err)
	}
}
