package evaluation_test

import (
	"encoding/csv"
	"slices"
	"strings"
	"testing"

	"gearshift/env/evaluation"
)

// valued adds what the runs of a row were worth by an objective.
func valued(r evaluation.Result, o evaluation.Objective, runs ...float64) evaluation.Result {
	r.Objectives = append(slices.Clone(r.Objectives), evaluation.Valued{Objective: o, Value: evaluation.Bootstrap(runs), Runs: runs})
	return r
}

// Each policy is held against the rule that is best by what the policy was trained for.
func TestVerdictsAreByTheObjectiveOfEach(t *testing.T) {
	near := evaluation.NearPeak
	rows := []evaluation.Result{
		valued(result("plain", "u1", false, 0.8, 0.6), near, 0.1, 0.1),
		valued(result("steady", "u1", false, 0.5, 0.4), near, 0.9, 0.7),
		valued(result("high", "u1", true, 0.7, 0.5), near, 0.3, 0.1),
		valued(result("near", "u1", true, 0.2, 0.1), near, 0.8, 0.6),
	}
	rows[1].Objective = near
	list := evaluation.Verdicts(rows, []string{"u1"})
	var got []string
	for _, v := range list {
		got = append(got, v.Policy+" "+v.String())
	}
	want := []string{
		"plain over the best rule, high, by +0.1000 (+0.1000 to +0.1000), paired over 2 seeds: better",
		"steady over the best rule, near, by +0.1000 (+0.1000 to +0.1000) of near-peak, paired over 2 seeds: better",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A report has columns of its own for each objective, after all others, and is as ever where
// there is none.
func TestReportsShowObjectives(t *testing.T) {
	windows, err := evaluation.WindowsObjective(0.98, 20)
	if err != nil {
		t.Fatal(err)
	}
	plain := evaluation.Report{Results: []evaluation.Result{result("steady", "u1", false, 0.5, 0.7), result("rule", "u1", true, 0.2, 0.2)}}
	with := plain
	with.Results = nil
	for _, r := range plain.Results {
		with.Results = append(with.Results, valued(valued(r, evaluation.NearPeak, 0.25, 0.75), windows, 0.125, 0.125))
	}
	write := func(r *evaluation.Report, format string) string {
		var b strings.Builder
		if err := r.Write(&b, format); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	rows := func(r *evaluation.Report) [][]string {
		list, err := csv.NewReader(strings.NewReader(write(r, "csv"))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	short, long := rows(&plain), rows(&with)
	for i := range short {
		if n := len(short[i]); !slices.Equal(short[i], long[i][:n]) || len(long[i]) != n+6 {
			t.Errorf("with objectives %q, without %q", long[i], short[i])
		}
	}
	more := func(row int) string { return strings.Join(long[row][len(short[row]):], " ") }
	if want := "near-peak_mean near-peak_lo near-peak_hi windows:0.98,20_mean windows:0.98,20_lo windows:0.98,20_hi"; more(0) != want {
		t.Errorf("columns %s, want %s", more(0), want)
	}
	if want := "0.5 0.25 0.75 0.125 0.125 0.125"; more(1) != want {
		t.Errorf("values %s, want %s", more(1), want)
	}
	for format, fields := range map[string][]string{
		"table": {"near-peak (95 %)     windows:0.98,20 (95 %)\n", "0.500 (0.250–0.750)  0.125 (0.125–0.125)"},
		"json":  {`"objective": "near-peak"`, `"objective": "windows:0.98,20"`},
	} {
		for _, field := range fields {
			if !strings.Contains(write(&with, format), field) {
				t.Errorf("no %q in\n%s", field, write(&with, format))
			}
		}
		for _, field := range []string{"near-peak", "objective"} {
			if strings.Contains(write(&plain, format), field) {
				t.Errorf("%q in\n%s", field, write(&plain, format))
			}
		}
	}
}

func TestBesideMeanUtility(t *testing.T) {
	p, err := evaluation.PowerObjective(8)
	if err != nil {
		t.Fatal(err)
	}
	if got := evaluation.Beside(evaluation.MeanUtility, p, evaluation.NearPeak, p); !slices.Equal(got, []evaluation.Objective{p, evaluation.NearPeak}) {
		t.Errorf("%v", got)
	}
}

// What runs were worth by an objective that nobody asked for is not taken to be their utility.
func TestValuesThatNobodyAskedFor(t *testing.T) {
	r := valued(result("steady", "u1", false, 0.5, 0.7), evaluation.NearPeak, 0.25, 0.75)
	if got := r.By(evaluation.MeanUtility); !slices.Equal(got.Runs, []float64{0.5, 0.7}) || !got.Objective.IsZero() {
		t.Errorf("by utility: %+v", got)
	}
	if got := r.By(evaluation.NearPeak); !slices.Equal(got.Runs, []float64{0.25, 0.75}) {
		t.Errorf("by near-peak: %+v", got)
	}
	p, err := evaluation.PowerObjective(8)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if got := recover(); got != "evaluation: the plan does not ask for power:8" {
			t.Errorf("by power:8: %v", got)
		}
	}()
	t.Errorf("by power:8: %+v", r.By(p))
}
