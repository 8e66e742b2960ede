package policies

import (
	"math"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/workloads"
)

// The score of a search is an evaluation's on seeds of the training domain, with as
// many routers.
func TestTuningPlaysTrainingSeeds(t *testing.T) {
	s, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	work, err := s.Evaluated([]string{"u1"}, 200)
	if err != nil {
		t.Fatal(err)
	}
	for _, routers := range []env.Routers{{}, {Number: 3, Gauges: time.Second}} {
		report, err := Tune(t.Context(), s, Search{Seeds: 3, Trials: 3, Routers: routers}, work, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range report.Best {
			c, err := Contestant(s, nil, b.Policy, nil)
			if err != nil {
				t.Fatal(err)
			}
			c.Fleet.Routers = routers
			plan := evaluation.Plan{Contestants: []evaluation.Contestant{c}, Workloads: work, Seeds: workloads.Seeds(workloads.Training, 3)}
			results, err := plan.Evaluate(t.Context())
			if err != nil || math.Abs(results[0].Utility.Mean-b.Score) > 1e-12 {
				t.Errorf("%d routers: %s scores %v, evaluation says %+v, %v", routers.Number, b.Policy, b.Score, results, err)
			}
		}
	}
}
