package policies

import (
	"context"

	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/workloads"
)

// Search is a search for the best parameters of rules.
type Search struct {
	Seeds  int                  // training runs of each workload that a point takes
	Trials int                  // points for each rule at most
	For    evaluation.Objective // what is best
	evaluation.Pacing
	// Routers share the fleet in the search as they will where the best is used.
	Routers env.Routers
}

// Tune searches every family of rules on the training seeds of the workloads.
func Tune(ctx context.Context, s *scenario.Scenario, o Search, work []evaluation.Workload, progress func(done, total int)) (*evaluation.TuningReport, error) {
	fleet, err := s.Simulation()
	if err != nil {
		return nil, err
	}
	fleet.Routers = o.Routers
	families, err := ruleFamilies(s, fleet.Table, o.For)
	if err != nil {
		return nil, err
	}
	t := evaluation.Tuning{
		Families: families, Fleet: fleet, Workloads: work,
		Seeds: workloads.Seeds(workloads.Training, o.Seeds), Trials: o.Trials, Objective: o.For,
		Progress: progress, Pacing: o.Pacing,
	}
	trials, err := t.Run(ctx)
	if err != nil {
		return nil, err
	}
	return t.Report(trials, "training seeds"), nil
}

// ruleFamilies returns the rules whose parameters are searched for by the objective.
func ruleFamilies(s *scenario.Scenario, t *fleet.Table, o evaluation.Objective) ([]evaluation.Family, error) {
	maker, err := s.Maker(t)
	if err != nil {
		return nil, err
	}
	rules, err := maker.Families(o.Window() > 1)
	if err != nil {
		return nil, err
	}
	families := make([]evaluation.Family, len(rules))
	for i, f := range rules {
		families[i] = evaluation.Family{
			Name: f.Name,
			Make: func(values []float64) (string, evaluation.Decider, error) {
				rule, err := f.Make(values)
				if err != nil {
					return "", nil, err
				}
				return rule.Name(), rule, nil
			},
		}
		for _, axis := range f.Axes {
			families[i].Axes = append(families[i].Axes, evaluation.Axis(axis))
		}
	}
	return families, nil
}
