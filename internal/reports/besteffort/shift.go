package besteffort

import (
	"context"
	"fmt"
	"slices"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
)

// shiftSection is Figures 8, 9 and 14: other mixes of tasks than in training.
func (p *paper) shiftSection(ctx context.Context, out *reports.Part) {
	out.Text = "The hard policy, trained on all tasks alike, serves one task alone (LBE-29); and the soft policy serves HellaSwag and COPA alone on the first unpredictable workload."
	table := report.Table{
		ID: "shift-rates", Title: "The policy against the best static size, by task: the worst rate of the sweep",
		Columns: []report.Column{
			report.TextColumn("task", "Task"), report.NumberColumn("mean", "Mean over the sweep", "", 3),
			report.NumberColumn("envelope", "Mean of the best static at each rate", "", 3),
			report.NumberColumn("worst", "Worst difference", "", 3), report.NumberColumn("rate", "At rate", "requests/s", 2),
		},
	}
	for t, task := range taskNames(p.scenario) {
		s := only(p.scenario, task)
		w := p.sweep(ctx, "only "+task, s, p.hard)
		out.Figures = append(out.Figures,
			w.utility("fig8-"+task, "Figure 8: utility with "+task+" alone"),
			w.choices("fig9-"+task, "Figure 9: choices with "+task+" alone", t))
		table.Rows = append(table.Rows, w.worst(task))
	}
	s := only(softened(p.scenario), "hellaswag", "copa")
	two := p.twoTasks(ctx, s)
	out.Tables = []report.Table{table, two}
	figures := p.timeline(ctx, s, "fig14", "Figure 14, soft, HellaSwag and COPA alone", "u1", p.soft)
	out.Figures = append(out.Figures, figures...)
}

// twoTasks is Figure 14 in numbers, over all seeds.
func (p *paper) twoTasks(ctx context.Context, s *scenario.Scenario) report.Table {
	t := report.Table{
		ID: "shift-two", Title: "HellaSwag and COPA alone on u1, soft deadlines",
		Columns: []report.Column{report.TextColumn("policy", "Policy"), report.IntervalColumn("utility", "Utility", "", 3)},
	}
	refs := append([]string{p.soft}, statics(s)...)
	all := p.evaluate(ctx, "only two", s, refs, []string{"u1"})
	for _, ref := range refs {
		t.Rows = append(t.Rows, []report.Cell{report.Text(ref), reports.Cell(all[[2]string{ref, "u1"}].Utility)})
	}
	return t
}

// worst returns a row: where the policy is furthest below the best static size.
func (w *sweep) worst(task string) []report.Cell {
	rates := w.scenario.Evaluation.StableRates
	var mean, envelope, worst, at float64
	for i, rate := range rates {
		own := w.all[[2]string{w.policy, stableName(rate)}].Utility.Mean
		var best float64
		for _, ref := range statics(w.scenario) {
			best = max(best, w.all[[2]string{ref, stableName(rate)}].Utility.Mean)
		}
		mean, envelope = mean+own/float64(len(rates)), envelope+best/float64(len(rates))
		if d := own - best; i == 0 || d < worst {
			worst, at = d, rate
		}
	}
	return []report.Cell{report.Text(task), report.Number(mean), report.Number(envelope), report.Number(worst), report.Number(at)}
}

// deadlineSection is Figures 12 and 13.
func (p *paper) deadlineSection(ctx context.Context, out *reports.Part) {
	s := otherDeadlines(p.scenario, paperDeadlines)
	w := p.sweep(ctx, "deadlines", s, p.deadlines)
	out.Text, out.Figures = "OpenBookQA has twice the deadline, COPA 20 % less (LBE-5). The policy is trained for them.", w.figures(12, "policy", "")
}

// hardwareSection is Figures 10 and 11: utility per GPU against twice the GPUs.
func (p *paper) hardwareSection(ctx context.Context, out *reports.Part) {
	out.Text = fmt.Sprintf("The policy on %d hosts against %s alone on %d (LBE-30).", len(p.scenario.Hosts), largest(p.scenario), 2*len(p.scenario.Hosts))
	large := "static:" + largest(p.scenario)
	for _, kind := range []string{"hard", "soft"} {
		s, policy := p.scenario, p.hard
		if kind == "soft" {
			s, policy = softened(p.scenario), p.soft
		}
		all := p.evaluate(ctx, kind, s, []string{policy, large}, []string{"stable"})
		twice := p.evaluate(ctx, kind+" twice", doubled(s), []string{large}, []string{"stable"})
		per := func(hosts int) func(evaluation.Result) evaluation.Interval {
			return func(r evaluation.Result) evaluation.Interval { return reports.Scaled(r.Utility, 1/float64(hosts)) }
		}
		n := len(s.Hosts)
		out.Figures = append(out.Figures, report.Figure{
			ID: "fig10-" + kind, Title: "Figure 10: utility per host, " + kind + " deadlines", X: rateAxis,
			Y: report.Axis{Label: "Utility per request and host"}, Half: true,
			Series: []report.Series{
				byRate(s, all, policy, "policy", per(n)), byRate(s, all, large, large, per(n)),
				byRate(s, twice, large, fmt.Sprintf("%s on %d", large, 2*n), per(2*n)),
			},
		})
	}
	figure, table := p.hardwareOnU1(ctx, large)
	out.Figures, out.Tables = append(out.Figures, figure), append(out.Tables, table)
}

// hardwareOnU1 is Figure 11 and its figures in the text.
func (p *paper) hardwareOnU1(ctx context.Context, large string) (report.Figure, report.Table) {
	n := float64(len(p.scenario.Hosts))
	ours := p.sample(ctx, p.scenario, p.hard, "u1", len(p.seeds))
	theirs := p.sample(ctx, doubled(p.scenario), large, "u1", len(p.seeds))
	figure := report.Figure{
		ID: "fig11", Title: "Figure 11: utility per host over the last 20 requests, u1", X: report.Axis{Label: "Request"},
		Y: report.Axis{Label: "Utility per request and host"},
	}
	for i, runs := range [][][]evaluation.Sample{ours, theirs} {
		x, y := windowed(runs[0], func(s evaluation.Sample) float64 { return s.Utility / (n * float64(1+i)) })
		figure.Series = append(figure.Series, report.Series{Name: []string{"policy", large + " on twice the hosts"}[i], Style: report.Line, X: x, Y: y})
	}
	var higher, windows, a, b, nearA, nearB float64
	for i := range ours {
		_, x := windowed(ours[i], relative)
		_, y := windowed(theirs[i], relative)
		for j := range x {
			windows++
			a, b = a+x[j]/n, b+y[j]/(2*n)
			if x[j]/n > y[j]/(2*n) {
				higher++
			}
			if x[j] >= 0.9 {
				nearA++
			}
			if y[j] >= 0.9 {
				nearB++
			}
		}
	}
	table := report.Table{
		ID: "hardware-u1", Title: "Utility per host on u1, the policy against " + large + " on twice the hosts",
		Columns: []report.Column{report.TextColumn("figure", "Figure"), report.BesideColumn("value", "Value", "", 2)},
		Rows: [][]report.Cell{
			{report.Text("windows in which the policy's is higher, %"), report.Beside(100*quotient(higher, windows), 97.03)},
			{report.Text("ratio of the means"), report.Beside(quotient(a, b), 3.94)},
			{report.Text("ratio of the windows at 90 % of peak or more"), report.Beside(quotient(nearA, nearB), 1.51)},
		},
	}
	return figure, table
}

// othersSection asks the report's question on the other built-in scenarios whose
// presets are this one's: nothing is tuned to them but the rules.
func (p *paper) othersSection(ctx context.Context, out *reports.Part) {
	out.Text = "On each fleet the preset trains a policy of its own, and the rules are tuned on that fleet's training seeds."
	t := report.Table{
		ID: "other-scenarios", Title: "The policy less the best rule of each workload",
		Columns: append([]report.Column{report.TextColumn("scenario", "Scenario"), report.TextColumn("workload", "Workload")}, comparison("rule", 4)...),
	}
	for _, name := range scenario.Fleets() {
		s := must(scenario.Load(name))
		sizes := !slices.ContainsFunc(s.Variants, func(v scenario.Variant) bool { return len(v.Modalities) > 0 })
		if name == p.scenario.Name || s.Failover() != nil || s.Training.PresetsFrom != p.scenario.Name || !sizes {
			continue
		}
		rows := p.onFleet(ctx, s)
		t.Rows = append(t.Rows, rows...)
	}
	if len(t.Rows) == 0 {
		out.Text = fmt.Sprintf("No other built-in scenario borrows the presets of %s.", p.scenario.Name)
		return
	}
	out.Tables = []report.Table{t}
}

// onFleet returns the rows of one scenario.
func (p *paper) onFleet(ctx context.Context, s *scenario.Scenario) [][]report.Cell {
	q := &paper{Run: p.Run, options: p.options, scenario: s, store: p.store, seeds: p.seeds, cache: map[string]rows{}}
	q.options.Scenario = s.Name
	q.hard = q.trained(ctx, "hard-"+s.Name, s, q.options.Preset, 1, "")
	q.tune(ctx, coarse)
	all := q.evaluate(ctx, "hard", s, slices.Concat([]string{q.hard}, q.rules, statics(s)), policies.JudgedBy)
	var list [][]report.Cell
	for _, name := range policies.JudgedBy {
		rule, best := bestOf(all, append(statics(s), q.rules...), name)
		list = append(list, append([]report.Cell{report.Text(s.Name), report.Text(name)}, compared(all[[2]string{q.hard, name}], rule, best)...))
	}
	return list
}
