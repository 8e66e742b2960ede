package policies

import (
	"context"
	"strconv"
	"strings"

	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/router/policy"
	"gearshift/workloads"
)

// Search is a search for the best parameters of rules.
type Search struct {
	Seeds  int                  // training runs of each workload that a point takes
	Trials int                  // points for each rule at most
	For    evaluation.Objective // what is best
	// Starts lists rules with which the search of their family begins.
	Starts []string
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
	families, err := ruleFamilies(s, fleet.Table, o.For, o.Starts)
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

// ruleFamilies returns the rules whose parameters are searched for by the objective, each with the starts of its form.
func ruleFamilies(s *scenario.Scenario, t *fleet.Table, o evaluation.Objective, starts []string) ([]evaluation.Family, error) {
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
		for _, ref := range starts {
			if values, ok := parameters(maker, f, ref); ok {
				families[i].Starts = append(families[i].Starts, values)
			}
		}
	}
	return families, nil
}

// parameters returns the numbers of a rule; false if it is not of the family.
func parameters(m *policy.Maker, f policy.Family, ref string) (values []float64, ok bool) {
	rule, err := m.Parse(ref)
	if err != nil {
		return nil, false
	}
	kind, list, _ := strings.Cut(rule.Name(), ":")
	if of, _, _ := strings.Cut(f.Name, ":"); of != kind {
		return nil, false
	}
	for word := range strings.SplitSeq(list, ",") {
		value, err := strconv.ParseFloat(word, 64)
		if err != nil { // the limits of several tasks
			return nil, false
		}
		values = append(values, value)
	}
	return values, len(values) == len(f.Axes)
}
