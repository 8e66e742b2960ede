package evaluation_test

import (
	"math"
	"strings"
	"testing"

	"gearshift/env/evaluation"
)

// result is a row whose policy earned so much in each run.
func result(policy, workload string, rule bool, runs ...float64) evaluation.Result {
	return evaluation.Result{Policy: policy, Workload: workload, Rule: rule, Runs: runs, Utility: evaluation.Bootstrap(runs)}
}

// A policy is held against the rule that is best over all workloads, each weighing the
// same, whatever it is on each. The members of a sweep are not there twice, a run without
// requests counts nowhere.
func TestVerdicts(t *testing.T) {
	member := result("mine", "stable:1", false, 0, 0)
	wholes := []string{"u1", "stable"}
	rows := []evaluation.Result{
		result("mine", "u1", false, 0.8, 0.6), result("mine", "stable", false, 0.9, 0.9), member,
		result("steady", "u1", true, 0.7, 0.5), result("steady", "stable", true, 0.8, 0.8),
		result("steady", "u1", true, 0.7, 0.5), // listed twice
		result("odd", "u1", true, 0.9, 0.7), result("odd", "stable", true, 0.3, 0.3),
	}
	list := evaluation.Verdicts(rows, wholes)
	if len(list) != 1 || list[0].Policy != "mine" || list[0].Rule != "steady" || math.Abs(list[0].Margin.Mean-0.1) > 1e-9 || list[0].Word() != evaluation.Better {
		t.Errorf("%+v", list)
	}
	if got := evaluation.Together(list[0].Workloads); got != "u1 and stable" {
		t.Errorf("on %s", got)
	}
	if list := evaluation.Verdicts(rows[:3], wholes); len(list) != 0 {
		t.Errorf("without a rule %+v", list)
	}
	none := math.NaN()
	over, err := evaluation.Over(evaluation.Score{Runs: []float64{0.5, none}}, []evaluation.Score{{Policy: "a", Runs: []float64{0.4, none}}, {Policy: "b", Runs: []float64{0.6, none}}})
	if err != nil || over.Rule != "b" || over.Word() != evaluation.Worse {
		t.Errorf("%+v, %v", over, err)
	}
}

func TestHeadlines(t *testing.T) {
	list := []evaluation.Workload{{Name: "u1"}, {Name: "stable:1", Group: "stable"}, {Name: "stable:2", Group: "stable"}, {Name: "u1"}}
	if got := evaluation.Together(evaluation.Headlines(list)); got != "u1 and stable" {
		t.Errorf("wholes are %s", got)
	}
}

func TestTheWordOfAVerdict(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		want   string
	}{
		{0.001, 0.003, "over the best rule, r, by +0.0020 (+0.0010 to +0.0030), paired over 20 seeds: better"},
		{0, 0.004, "over the best rule, r, by +0.0020 (+0.0000 to +0.0040), paired over 20 seeds: level"},
		{-0.0003, 0.0027, "over the best rule, r, by +0.0012 (-0.0003 to +0.0027), paired over 20 seeds: level"},
		{-0.004, 0, "over the best rule, r, by -0.0020 (-0.0040 to +0.0000), paired over 20 seeds: level"},
		{-0.003, -0.001, "over the best rule, r, by -0.0020 (-0.0030 to -0.0010), paired over 20 seeds: worse"},
	} {
		v := evaluation.Verdict{Rule: "r", Seeds: 20, Margin: evaluation.Interval{Mean: (c.lo + c.hi) / 2, Lo: c.lo, Hi: c.hi}}
		if got := v.String(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// One run, or one that is repeated, settles nothing: there is no interval.
func TestRunsThatAreTheSame(t *testing.T) {
	for _, c := range []struct {
		policy, rule []float64
		want         string
	}{
		{[]float64{0.9}, []float64{0.8}, "by +0.1000, in one run: not settled"},
		{[]float64{0.9, 0.9, 0.9}, []float64{0.8, 0.8, 0.8}, "by +0.1000, in 3 runs that are the same: not settled"},
		{[]float64{0.9, 0.9, 0.91}, []float64{0.8, 0.8, 0.8}, "paired over 3 seeds: better"},
	} {
		v, err := evaluation.Over(evaluation.Score{Policy: "p", Runs: c.policy}, []evaluation.Score{{Policy: "r", Runs: c.rule}})
		if err != nil || !strings.HasSuffix(v.String(), c.want) {
			t.Errorf("%v, %q; want %q", err, v, c.want)
		}
	}
}
