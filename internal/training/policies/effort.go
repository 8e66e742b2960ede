package policies

import (
	"context"

	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/router/policy"
	"gearshift/workloads"
)

// Effort bounds a search for rules, so that it takes about as long on a fleet of any size. Every family of
// rules gets the same number of simulated decisions.
type Effort struct {
	Trials   int `json:"trials"`   // points for each family at most
	Seeds    int `json:"seeds"`    // training runs of each workload that a point takes
	Requests int `json:"requests"` // in a run; a sweep takes twice as many
	Rates    int `json:"rates"`    // of a sweep
}

// Minute takes about a minute of one core.
var Minute = Effort{Trials: 24, Seeds: 2, Requests: 2500, Rates: 5}

// Search searches every family of rules by the scenario's objective.
func (e Effort) Search(ctx context.Context, s *scenario.Scenario, names []string, pacing evaluation.Pacing, progress func(done, total int)) (*evaluation.TuningReport, error) {
	work, err := e.workloads(s, names)
	if err != nil {
		return nil, err
	}
	starts, err := knownRules()
	if err != nil {
		return nil, err
	}
	return Tune(ctx, s, Search{Seeds: e.Seeds, Trials: e.Trials, For: s.Training.Objective, Starts: starts, Pacing: pacing}, work, progress)
}

// Known names the scenario with whose tuned rules a short search begins.
const Known = "titan-rtx-opt"

// knownRules returns the rules that a short search begins from: each kind without parameters, and those that
// were tuned for the known scenario.
func knownRules() ([]string, error) {
	s, err := scenario.Load(Known)
	if err != nil {
		return nil, err
	}
	return append(policy.Kinds(), s.Evaluation.Rules...), nil
}

func (e Effort) workloads(s *scenario.Scenario, names []string) ([]evaluation.Workload, error) {
	return Shortened(s, names, e.Requests, e.Rates, 2*e.Requests)
}

// improvementSeeds counts the validation runs of each workload in the comparison with the rule found.
const improvementSeeds = 16

// Improve searches for a rule, and compares the best one with the rule at hand on validation seeds, which the
// search has not seen. The verdict's policy is the one found.
func (e Effort) Improve(ctx context.Context, s *scenario.Scenario, present string, pacing evaluation.Pacing, progress func(done, total int)) (evaluation.Verdict, error) {
	found, err := e.Search(ctx, s, JudgedBy, pacing, progress)
	if err != nil {
		return evaluation.Verdict{}, err
	}
	best := evaluation.BestFirst(found.Best)[0].Policy
	list, err := Contestants(s, nil, []string{best, present}, nil)
	if err != nil {
		return evaluation.Verdict{}, err
	}
	work, err := e.workloads(s, JudgedBy)
	if err != nil {
		return evaluation.Verdict{}, err
	}
	by := s.Training.Objective
	plan := evaluation.Plan{
		Contestants: list, Workloads: work, Seeds: workloads.Seeds(workloads.Validation, improvementSeeds),
		Objectives: evaluation.Beside(by), Pacing: pacing,
	}
	results, err := plan.Evaluate(ctx)
	if err != nil {
		return evaluation.Verdict{}, err
	}
	return evaluation.Against(results, evaluation.Headlines(work), list[0].Name, by, map[string]bool{list[1].Name: true})
}

// Shortened returns the workloads of the names with that many requests in a run. A sweep has as many rates,
// spread over those of the scenario, and phases as short as it takes for most requests in a run, but never
// longer than the scenario's.
func Shortened(s *scenario.Scenario, names []string, requests, rates, most int) ([]evaluation.Workload, error) {
	short := *s
	short.Evaluation.StableRates = spread(s.Evaluation.StableRates, rates)
	var sum float64
	for _, rate := range short.Evaluation.StableRates {
		sum += rate
	}
	short.Evaluation.PhaseS = min(s.Evaluation.PhaseS, float64(most)/sum)
	return short.Evaluated(names, requests)
}

// spread returns n of the values at even distances, each from the middle of its part of the list.
func spread(values []float64, n int) []float64 {
	if n >= len(values) {
		return values
	}
	var list []float64
	for i := range n {
		list = append(list, values[(2*i+1)*len(values)/(2*n)])
	}
	return list
}
