package adapt

import (
	"slices"
	"testing"

	"gearshift/cmd/gearshift/scenario"
	"gearshift/env/evaluation"
	"gearshift/serving"
)

// The rules that were found take the place of the scenario's, the best first, which advises.
func TestRulesThatWereFound(t *testing.T) {
	text, err := Rules("tiny", []evaluation.Best{
		{Trial: evaluation.Trial{Policy: "threshold:3", Score: 0.7}}, {Trial: evaluation.Trial{Policy: "slackfit:0.8", Score: 0.9}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Parse("tuned.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"slackfit:0.8", "threshold:3"}; !slices.Equal(s.Evaluation.Rules, want) || s.Spec().Advice() != "slackfit:0.8" {
		t.Errorf("rules %q, advised by %q", s.Evaluation.Rules, s.Spec().Advice())
	}
}

func TestAPatientScenarioShedsNothing(t *testing.T) {
	text, err := Patient("tiny")
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Parse("patient.yaml", text)
	if err != nil || s.Serving.Server.Overload.Shed != serving.ShedNever {
		t.Errorf("%v, %v", err, string(text))
	}
}
