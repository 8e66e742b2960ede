package evaluation_test

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"gearshift/env/evaluation"
)

// The quarter at either end, rounded down, does not count.
func TestInterquartileMean(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1, 2}, 4},
		{[]float64{100, 1, 2, 0}, 1.5},
		{[]float64{-50, 1, 2, 3, 4, 5, 6, 100}, 3.5},
	} {
		before := slices.Clone(test.values)
		got := evaluation.InterquartileMean(test.values)
		if got.Mean != test.want || got.Lo > got.Mean || got.Hi < got.Mean {
			t.Errorf("of %v: %+v, want %v", test.values, got, test.want)
		}
		if !slices.Equal(before, test.values) {
			t.Errorf("%v became %v", before, test.values)
		}
	}
	if got := evaluation.InterquartileMean(nil); got != (evaluation.Interval{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

// What seeds have in common drops out of a paired difference.
func TestPaired(t *testing.T) {
	var a, b []float64
	for i := range 20 {
		common := math.Sin(float64(i))
		a, b = append(a, common+0.01+0.001*float64(i%3)), append(b, common)
	}
	got, err := evaluation.Paired(a, b)
	if err != nil || math.Abs(got.Mean-0.011) > 0.0002 || got.Lo < 0.01 || got.Hi > 0.012 {
		t.Errorf("difference %+v, %v", got, err)
	}
	if _, err := evaluation.Paired(a, b[1:]); err == nil || !strings.Contains(err.Error(), "20 runs with 19") {
		t.Errorf("20 runs are compared with 19: %v", err)
	}
}

// A policy that is no rule is held against the rule that does best there, seed
// by seed; the runs are those that the mean is of.
func TestBestRule(t *testing.T) {
	p := plan(t)
	fleet := p.Contestants[0].Fleet
	p.Contestants = []evaluation.Contestant{
		{Name: "small", Decider: always(0), Fleet: fleet, Rule: true},
		{Name: "large", Decider: always(1), Fleet: fleet, Rule: true},
		{Name: "learned", Decider: always(1), Fleet: fleet},
	}
	results, err := p.Evaluate(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	row := map[string]evaluation.Result{}
	for _, r := range results {
		row[r.Policy+" "+r.Workload] = r
		var sum float64
		for _, x := range r.Runs {
			sum += x
		}
		if len(r.Runs) != 3 || math.Abs(sum/3-r.Utility.Mean) > 1e-12 {
			t.Errorf("%s on %s: runs %v with mean %v", r.Policy, r.Workload, r.Runs, r.Utility.Mean)
		}
		if r.Rule && r.BestRule != nil {
			t.Errorf("rule %s is compared with %s", r.Policy, r.BestRule.Policy)
		}
	}
	if got := row["learned slow"].BestRule; got == nil || *got != (evaluation.Versus{Policy: "large"}) {
		t.Errorf("learned, slow: %+v, want no difference to large", got)
	}
	for _, workload := range []string{"fast", "both"} {
		learned, small := row["learned "+workload], row["small "+workload]
		want, err := evaluation.Paired(learned.Runs, small.Runs)
		if got := learned.BestRule; err != nil || got == nil || got.Policy != "small" || got.Utility != want || want.Hi >= 0 {
			t.Errorf("learned, %s: %+v, want %+v under small", workload, got, want)
		}
	}
	report := evaluation.Report{Results: results, Variants: fleet.Table.Variants}
	var table strings.Builder
	if err := report.Write(&table, "table"); err != nil || strings.Count(table.String(), "+0.0000 (+0.0000 to +0.0000), large") != 1 {
		t.Errorf("%v, table:\n%s", err, table.String())
	}
	text, err := json.Marshal(row["learned fast"])
	if err != nil || !strings.Contains(string(text), `"vs_best_rule":{"policy":"small","utility":{`) || strings.Contains(string(text), "Runs") {
		t.Errorf("%v, JSON: %s", err, text)
	}
}
