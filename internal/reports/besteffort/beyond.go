package besteffort

import (
	"context"
	"fmt"
	"slices"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/internal/training/policies"
)

// beyondSection shows what neither the paper nor training had: recorded arrivals,
// other bursts, a lost host, and profiles or lengths that are not as declared.
func (p *paper) beyondSection(ctx context.Context, out *reports.Part) {
	out.Text = "Recorded arrivals are rescaled in time to a multiple of the rate up to which the middle size alone meets 95 % of its deadlines. " +
		"Where a departure is named, the policies still go by what the scenario declares: outputs of another length, GPUs slower (x1.25) or quicker (x0.75), a host lost on the way."
	knee := p.knee(ctx)
	groups := []struct {
		id, title string
		names     []string
	}{
		{"traces", fmt.Sprintf("Recorded arrivals at ½, 1 and 2 times %g requests/s", knee), nil},
		{"bursts", "Bursts of other kinds", []string{"short-bursts", "long-bursts", "clusters", "u2-uniform"}},
		{"departures", "The world is not as declared", []string{
			"u1+gpu:x1.25", "u1+gpu:x0.75", "u1+outputs:x0.5", "u1+outputs:x2", "u1+lost:" + p.scenario.Hosts[0].Name + "@300-1200",
		}},
	}
	for _, trace := range []string{"azure-code", "arena"} {
		for _, factor := range []float64{0.5, 1, 2} {
			groups[0].names = append(groups[0].names, fmt.Sprintf("trace:%s@%g", trace, factor*knee))
		}
	}
	for _, g := range groups {
		names, refused := p.playable(g.names)
		out.Text += refused
		if len(names) == 0 {
			continue
		}
		table := p.besideRules(ctx, g.id, g.title, names)
		out.Tables = append(out.Tables, table)
	}
}

// playable returns the workloads that the policies can be played on, and a sentence for each
// that they cannot: where a lost host leaves one without a replica, or answers twice as
// long do not fit. It is no error, which would cost the hours of all that comes before.
func (p *paper) playable(names []string) (list []string, refused string) {
	contestants := must(policies.Contestants(p.scenario, nil, slices.Concat(p.rules, statics(p.scenario)), nil))
	for _, name := range names {
		plan := evaluation.Plan{Contestants: contestants}
		var err error
		if plan.Workloads, err = p.scenario.Evaluated([]string{name}, p.scenario.Evaluation.Requests); err == nil {
			err = plan.Playable()
		}
		if err != nil {
			refused += fmt.Sprintf(" On this fleet there is no %s: %v.", name, err)
			continue
		}
		list = append(list, name)
	}
	return list, refused
}

// knee returns the highest rate of the sweep at which the middle size alone meets
// 95 % of its deadlines.
func (p *paper) knee(ctx context.Context) float64 {
	middle := "static:" + p.scenario.Variants[len(p.scenario.Variants)/2].Name
	all := p.evaluate(ctx, "hard", p.scenario, []string{middle}, []string{"stable"})
	knee := p.scenario.Evaluation.StableRates[0]
	for _, rate := range p.scenario.Evaluation.StableRates {
		if all[[2]string{middle, stableName(rate)}].DeadlineMet.Mean >= 0.95 {
			knee = rate
		}
	}
	return knee
}

// besideRules returns a table of the policy, the rules and the static sizes on some
// workloads, with the paired difference to the best rule of each.
func (p *paper) besideRules(ctx context.Context, id, title string, names []string) report.Table {
	t := report.Table{
		ID: id, Title: title,
		Columns: slices.Concat([]report.Column{report.TextColumn("workload", "Workload")}, comparison("rule", 3), []report.Column{report.IntervalColumn("static", "Best static size", "", 3)}),
		Note:    "The best rule is picked on each workload from the same runs.",
	}
	for _, name := range names {
		all := p.evaluate(ctx, "hard", p.scenario, slices.Concat([]string{p.hard}, p.rules, statics(p.scenario)), []string{name})
		rule, best := bestOf(all, p.rules, name)
		_, static := bestOf(all, statics(p.scenario), name)
		row := append([]report.Cell{report.Text(name)}, compared(all[[2]string{p.hard, name}], rule, best)...)
		t.Rows = append(t.Rows, append(row, reports.Cell(static.Utility)))
	}
	return t
}

// bestOf returns the policy with the highest mean utility on the workload.
func bestOf(all rows, refs []string, name string) (ref string, best evaluation.Result) {
	for _, r := range refs {
		if x, ok := all[[2]string{r, name}]; ok && (ref == "" || x.Utility.Mean > best.Utility.Mean) {
			ref, best = r, x
		}
	}
	return ref, best
}
