package prompts

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/internal/training/policies"
	"gearshift/workloads"
)

// bursts are workloads with bursts, and steady ones have a rate throughout.
var bursts, steady = []string{"u1", "u2"}, []string{"stable:3", "stable:6", "stable:12", "stable:24", "stable:36"}

// mostBars bounds the contestants of a workload in a figure.
const mostBars = 6

// load shows what predictions are worth where sizes are chosen by load too.
func (s *study) load(ctx context.Context, p *reports.Part) error {
	w, err := newBench()
	if err != nil {
		return err
	}
	arms, err := w.arms()
	if err != nil {
		return err
	}
	p.Say("Scenario %s: three sizes on four hosts. Each request carries one of %d prompts; its answer is worth the score of that prompt, in time, whatever was predicted. Predictors are fitted to %d other prompts. %d seeds; differences are paired by them. All decide by %s but those that are tuned, and the threshold: it gives a request to the larger of two sizes if that is predicted to gain more than so much, and does not look at the load, for which sizes and threshold are tuned on training seeds, for each workload on its own.",
		played, len(w.used), len(w.fitted), s.Seeds, rule)
	list, err := s.contestants(ctx, w, arms)
	if err != nil {
		return err
	}
	t := loadTable("under-load", p.Title)
	f := report.Figure{ID: "load-figure", Title: "Mean utility above that of the task's mean quality", X: report.Axis{Label: "workload"}, Y: report.Axis{Label: "difference in mean utility"}}
	for _, name := range append(bursts, s.steady...) {
		work, err := w.scenario.Evaluated([]string{name}, s.requests)
		if err != nil {
			return err
		}
		blind, err := tuneThreshold(ctx, list[1], work[0], 2)
		if err != nil {
			return err
		}
		results, err := s.play(ctx, append(list[:len(list):len(list)], blind), work)
		if err != nil {
			return err
		}
		lay(&t, results, "large")
		f.X.Categories = append(f.X.Categories, name)
		for i, r := range results[1:] {
			if kind, _, _ := strings.Cut(r.Policy, ":"); i < mostBars-1 || i == len(results)-2 {
				bar(&f, kind, reports.Less(r.Runs, results[0].Runs))
			}
		}
		d, o := reports.Less(results[1].Runs, results[0].Runs), reports.Less(results[2].Runs, results[0].Runs)
		p.Head("%s: predicted earns %s more than the task's mean, %.0f %% of what the oracle does.", name, evaluation.Signed(d), 100*d.Mean/o.Mean)
	}
	p.Tables, p.Figures = []report.Table{t}, []report.Figure{f}
	return nil
}

// contestants returns the arms with the rule, and the first three with the best of all rules for each.
func (s *study) contestants(ctx context.Context, w *bench, arms []arm) (list []evaluation.Contestant, err error) {
	for _, a := range arms {
		c, err := a.contestant(rule)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	for _, a := range arms[:3] {
		c, err := s.tuned(ctx, a)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// tuned returns the best of all rules for the arm on training seeds of the bursts.
func (s *study) tuned(ctx context.Context, a arm) (evaluation.Contestant, error) {
	search := policies.Search{Seeds: 2, Trials: 40, For: evaluation.MeanUtility}
	if s.Quick {
		search.Seeds, search.Trials = 1, 12
	}
	work, err := a.scenario.Evaluated(bursts, s.requests/2)
	if err != nil {
		return evaluation.Contestant{}, err
	}
	found, err := policies.Tune(ctx, a.scenario, search, work, s.Counting("tuning with "+a.name))
	if err != nil {
		return evaluation.Contestant{}, err
	}
	best := slices.MaxFunc(found.Best, func(a, b evaluation.Best) int { return cmp.Compare(a.Score, b.Score) })
	c, err := a.contestant(best.Policy)
	c.Name += ", tuned: " + best.Policy
	return c, err
}

// play plays on evaluation seeds.
func (s *study) play(ctx context.Context, list []evaluation.Contestant, work []evaluation.Workload) ([]evaluation.Result, error) {
	plan := evaluation.Plan{Contestants: list, Workloads: work, Seeds: workloads.Seeds(workloads.Evaluation, s.Seeds)}
	return plan.Evaluate(ctx)
}

func loadTable(id, title string) report.Table {
	return report.Table{ID: id, Title: title, Columns: []report.Column{
		report.TextColumn("workload", "Workload"), report.TextColumn("by", "Decides by"), report.IntervalColumn("utility", "Mean utility", "", 4), report.IntervalColumn("more", "More than the first", "", 4),
		report.NumberColumn("reached", "Of the oracle's", "%", 0), report.IntervalColumn("difference", "Predicted, less this", "", 4), report.NumberColumn("large", "Large size", "%", 1), report.NumberColumn("met", "In time", "%", 1),
	}}
}

// lay adds the results on one workload: the first is without predictions, the second predicted, and the
// third the oracle's.
func lay(t *report.Table, results []evaluation.Result, large string) {
	oracle := reports.Less(results[2].Runs, results[0].Runs).Mean
	for i, r := range results {
		row := []report.Cell{report.Text(r.Workload), report.Text(r.Policy), reports.Cell(r.Utility), {}, {}, {}, report.Number(100 * r.Share[large]), report.Number(100 * r.DeadlineMet.Mean)}
		if i > 0 {
			d := reports.Less(r.Runs, results[0].Runs)
			row[3], row[4] = reports.Cell(d), report.Number(100*d.Mean/oracle)
		}
		if i != 1 {
			row[5] = reports.Cell(reports.Less(results[1].Runs, r.Runs))
		}
		t.Rows = append(t.Rows, row)
	}
}
