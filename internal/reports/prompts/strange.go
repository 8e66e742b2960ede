package prompts

import (
	"context"
	"fmt"
	"math"
	"path/filepath"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
)

// strange shows what predictions are worth where requests are of groups that no label is of.
func (s *study) strange(ctx context.Context, p *reports.Part) error {
	w, err := newBench()
	if err != nil {
		return err
	}
	p.Say("As under load, with requests of one group of prompts alone, which the predictor has no labels of: it is fitted to the others. The task's row is what the scenario declares. Raw is what is predicted without the shrinkage toward that row.")
	t := loadTable("strange-under-load", p.Title)
	worst := math.Inf(1)
	for _, group := range w.groups() {
		list, some, err := w.elsewhere(group)
		if err != nil {
			return err
		}
		for _, name := range append(bursts, s.steady[len(s.steady)/2:]...) {
			work, err := some.Evaluated([]string{name}, s.requests)
			if err != nil {
				return err
			}
			results, err := s.play(ctx, list, work)
			if err != nil {
				return err
			}
			for i := range results {
				results[i].Workload = fmt.Sprintf("%s, group %s", name, group)
			}
			lay(&t, results, "large")
			worst = min(worst, 100*results[1].Utility.Mean/results[0].Utility.Mean)
		}
	}
	p.Head("On groups of prompts that no label is of, predicted earns %.0f %% or more of the declared row's utility.", worst)
	p.Tables = []report.Table{t}
	return nil
}

// learned shows what a policy adds that is trained with predictions in its observation.
func (s *study) learned(ctx context.Context, p *reports.Part) error {
	w, err := newBench()
	if err != nil {
		return err
	}
	p.Say("A policy of preset quick, trained on %s with the predicted qualities and the choice of %s in its observation. Rules that are tuned are so on training seeds.", played, rule)
	fit := w.by(scenario.FitPredictor)
	store := filepath.Join(s.Out, "policies.db")
	ref, err := s.Train(ctx, reports.Training{Scenario: played, On: fit, Store: store, Preset: "quick", Name: "prompts", Seed: 1, Uncompared: true})
	if err != nil {
		return err
	}
	learned, err := policies.Contestant(fit, &policies.Source{Store: &checkpoints.Store{Path: store}}, ref, func(string) {})
	if err != nil {
		return err
	}
	learned.Name = "learned"
	var list []evaluation.Contestant
	arms := []arm{{"task's mean", w.by(""), nil}, {"predicted", fit, nil}, {"oracle", w.by(scenario.OraclePredictor), nil}}
	for _, a := range arms {
		c, err := a.contestant(rule)
		if err != nil {
			return err
		}
		list = append(list, c)
	}
	tuned, err := s.tuned(ctx, arms[1])
	if err != nil {
		return err
	}
	list = append(list, tuned, learned)
	t := loadTable("learned-under-load", p.Title)
	for _, name := range append(bursts, s.steady...) {
		work, err := w.scenario.Evaluated([]string{name}, s.requests)
		if err != nil {
			return err
		}
		results, err := s.play(ctx, list, work)
		if err != nil {
			return err
		}
		lay(&t, results, "large")
		p.Head("%s: the learned policy earns %s more than the rule with predictions, and %s more than the tuned one.", name,
			evaluation.Signed(reports.Less(results[4].Runs, results[1].Runs)), evaluation.Signed(reports.Less(results[4].Runs, results[3].Runs)))
	}
	p.Tables = []report.Table{t}
	return nil
}
