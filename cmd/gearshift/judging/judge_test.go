package judging

import (
	"slices"
	"strings"
	"testing"

	"gearshift/cmd/gearshift/scenario"
	"gearshift/router/observation"
)

func tiny(t *testing.T) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A rule that a scenario lists in two ways is one opponent.
func TestOpponentsAreListedOnce(t *testing.T) {
	s := tiny(t)
	s.Evaluation.Rules = []string{"slackfit:0.93", "static:" + s.Variants[0].Name}
	j, err := New(s, observation.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range j.rules {
		names = append(names, c.Name)
	}
	if want := 2 + len(s.Variants); len(names) != want || len(slices.Compact(slices.Sorted(slices.Values(names)))) != want {
		t.Errorf("opponents %v, want %d different ones", names, want)
	}
}

// What cannot be judged is not trained: that no request will come is said at first.
func TestNothingToJudgeOn(t *testing.T) {
	s := tiny(t)
	s.Evaluation.PhaseS, s.Evaluation.StableRates = 1, []float64{1e-6, 5}
	if _, err := New(s, observation.Spec{}); err == nil || !strings.Contains(err.Error(), "stable:1e-06: no request comes") {
		t.Errorf("error %v", err)
	}
}
