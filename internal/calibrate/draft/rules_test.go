package draft

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/serving/config"
)

// The rules that were found take the place of the scenario's, the best first, which advises.
func TestRulesThatWereFound(t *testing.T) {
	text, err := WithRules("tiny", []evaluation.Best{
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

// A scenario that is adapted keeps its objective as it is written.
func TestAdaptedScenariosKeepTheObjective(t *testing.T) {
	text, err := scenario.Text("tiny")
	if err != nil {
		t.Fatal(err)
	}
	file, own := filepath.Join(t.TempDir(), "near.yaml"), "objective: {windows: {share: 0.98, of: 10}}"
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "\ntraining:\n", "\ntraining:\n  "+own+"\n", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	adapted, err := WithRules(file, []evaluation.Best{{Trial: evaluation.Trial{Policy: "threshold:3", Score: 0.7}}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Parse("adapted.yaml", adapted)
	if err != nil || s.Training.Objective.String() != "windows:0.98,10" || !strings.Contains(string(adapted), own) {
		t.Errorf("%v, %v in %s", err, s, adapted)
	}
}

func TestAPatientScenarioShedsNothing(t *testing.T) {
	text, err := WithPatience("tiny")
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Parse("patient.yaml", text)
	if err != nil || s.Serving.Server.Overload.Shed != config.ShedNever {
		t.Errorf("%v, %v", err, string(text))
	}
}
