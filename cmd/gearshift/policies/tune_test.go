package policies

import (
	"math"
	"testing"

	"gearshift/cmd/gearshift/scenario"
	"gearshift/env/evaluation"
	"gearshift/workloads"
)

// The score of a search is an evaluation's on seeds of the training domain.
func TestTuningPlaysTrainingSeeds(t *testing.T) {
	s, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	work, err := s.Evaluated([]string{"u1"}, 200)
	if err != nil {
		t.Fatal(err)
	}
	report, err := Tune(t.Context(), s, Search{Seeds: 3, Trials: 3}, work, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range report.Best {
		c, err := Contestant(s, nil, b.Policy, nil)
		if err != nil {
			t.Fatal(err)
		}
		plan := evaluation.Plan{Contestants: []evaluation.Contestant{c}, Workloads: work, Seeds: workloads.Seeds(workloads.Training, 3)}
		results, err := plan.Evaluate(t.Context())
		if err != nil || math.Abs(results[0].Utility.Mean-b.Score) > 1e-12 {
			t.Errorf("%s scores %v, evaluation says %+v, %v", b.Policy, b.Score, results, err)
		}
	}
}
