package besteffort

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/env/planner"
	"gearshift/internal/reports"
	"gearshift/internal/training/policies"
)

// The searches of a report: of its own fleet's rules, and of others.
var (
	thorough = policies.Search{Seeds: 4, Trials: 150, For: evaluation.MeanUtility}
	coarse   = policies.Search{Seeds: 2, Trials: 60, For: evaluation.MeanUtility}
)

// tune finds the best of each family of rules on training seeds.
func (p *paper) tune(ctx context.Context, o policies.Search) {
	p.tuned = p.search(ctx, o, policies.JudgedBy)
	for _, b := range p.tuned {
		p.rules = append(p.rules, b.Policy)
	}
}

// ruleFor returns the rule that a search for the objective finds, once for each objective. For
// utility it is the best of [paper.tune], where that has been.
func (p *paper) ruleFor(ctx context.Context, by evaluation.Objective) string {
	if by.IsZero() && len(p.rules) > 0 {
		return p.rules[0]
	}
	if rule, known := p.bestFor[by]; known {
		return rule
	}
	o := coarse
	o.For = by
	found := p.search(ctx, o, policies.JudgedBy)
	if p.bestFor == nil {
		p.bestFor = map[evaluation.Objective]string{}
	}
	p.bestFor[by] = found[0].Policy
	return found[0].Policy
}

// search returns the best of each family of rules, the best of all first.
func (p *paper) search(ctx context.Context, o policies.Search, names []string) []evaluation.Best {
	if p.Quick {
		o.Seeds, o.Trials = 1, 12
	}
	work := must(p.scenario.Evaluated(names, p.scenario.Evaluation.Requests))
	fmt.Fprintf(p.Stderr, "tuning the rules of %s for %s on training seeds\n", p.scenario.Name, o.For)
	found := must(policies.Tune(ctx, p.scenario, o, work, p.Counting("tuning")))
	slices.SortStableFunc(found.Best, func(a, b evaluation.Best) int { return cmp.Compare(b.Score, a.Score) })
	return found.Best
}

// rulesSection answers the question of the report: does learning beat good rules?
func (p *paper) rulesSection(ctx context.Context, out *reports.Part) {
	out.Text = "Each family of rules is tuned by search on training seeds, for the mean of the three workloads; what is shown is of evaluation seeds, which neither the search nor training has seen. Static sizes have the whole memory of the fleet to themselves."
	refs := slices.Concat([]string{p.hard}, p.rules, statics(p.scenario))
	all := p.evaluate(ctx, "hard", p.scenario, refs, policies.JudgedBy)
	t := report.Table{
		ID: "all-rules", Title: "Mean utility per request", Columns: append(utilityColumns("Policy"),
			report.IntervalColumn("iqm", "u1, interquartile mean", "", 3), report.NumberColumn("score", "Score when tuned", "", 4)),
		Note: "Intervals are 95 %, by bootstrap over the seeds.",
	}
	for i, ref := range refs {
		score := report.Cell{}
		if i > 0 && i <= len(p.tuned) {
			score = report.Number(p.tuned[i-1].Score)
		}
		t.Rows = append(t.Rows, append(utilityRow(ref, all, ref), reports.Cell(all[[2]string{ref, "u1"}].UtilityIQM), score))
	}
	beside := p.besideRules(ctx, "beside-rules", "The policy less the best rule of each workload", policies.JudgedBy)
	out.Tables = []report.Table{beside, t}
	sentence := "Against the best tuned rule of each workload the policy is"
	for i, name := range policies.JudgedBy {
		_, best := bestOf(all, p.rules, name)
		d := paired(all[[2]string{p.hard, name}], best)
		sentence += fmt.Sprintf("%s %+.4f (%+.4f to %+.4f) on %s", []string{"", ",", " and"}[i], d.Mean, d.Lo, d.Hi, name)
	}
	out.Head("%s.", sentence)
}

// paired returns the difference of two policies on the same workload and seeds.
func paired(a, b evaluation.Result) evaluation.Interval { return reports.Less(a.Runs, b.Runs) }

// ceilingSection shows how far the policy is on the way to the best possible.
func (p *paper) ceilingSection(ctx context.Context, out *reports.Part) {
	out.Text = "A clairvoyant simulates, at each decision, every choice forward on the true future, arrivals and output lengths and all, with a base policy for the requests after; it takes the best. No router can know that much. " +
		"The share is that of the distance from the best tuned rule to the best clairvoyant that the policy has gone, on the same runs."
	requests, runs := 3000, 4
	if p.Quick {
		requests, runs = 600, 2
	}
	bases := []string{p.hard, p.rules[0]}
	t := report.Table{
		ID: "clairvoyants", Title: fmt.Sprintf("Clairvoyants over %d runs of %d requests", runs, requests),
		Columns: []report.Column{
			report.TextColumn("workload", "Workload"), report.NumberColumn("rule", "Best tuned rule", "", 4), report.NumberColumn("policy", "Policy", "", 4),
			report.NumberColumn("clairvoyant_rule", "Clairvoyant on the rule", "", 4), report.NumberColumn("clairvoyant_policy", "Clairvoyant on the policy", "", 4),
			report.NumberColumn("share", "Share of the distance gone", "%", 0),
		},
	}
	sentence := "Of the distance from the best rule to the best clairvoyant seen it has gone"
	for i, name := range []string{"u1", "u2"} {
		rule := p.short(ctx, p.rules, name, requests, runs, false)
		own := p.short(ctx, []string{p.hard}, name, requests, runs, false)
		var sighted []float64
		for _, base := range bases {
			best := p.short(ctx, []string{base}, name, requests, runs, true)
			sighted = append(sighted, best)
		}
		ceiling := max(sighted[0], sighted[1])
		share := 100 * quotient(own-rule, ceiling-rule)
		t.Rows = append(t.Rows, []report.Cell{
			report.Text(name), report.Number(rule), report.Number(own), report.Number(sighted[1]), report.Number(sighted[0]), report.Number(share),
		})
		gone := "–" // where no clairvoyant is above the rule
		if !math.IsNaN(share) {
			gone = fmt.Sprintf("%.0f", share)
		}
		sentence += fmt.Sprintf("%s %s %% on %s", []string{"", " and"}[i], gone, name)
	}
	fluid := p.fluid(ctx)
	out.Tables, out.Figures = []report.Table{t}, []report.Figure{fluid}
	out.Head("%s.", sentence)
	out.Head("Everything here is simulated under the profile %s; what a profile misses, it misses for all policies alike.", p.scenario.Name)
}

// short returns the highest mean utility among the policies over a few short runs,
// each as the base of a clairvoyant if they are to see the future.
func (p *paper) short(ctx context.Context, refs []string, name string, requests, runs int, foresight bool) float64 {
	var best float64
	for _, ref := range refs {
		list := must(policies.Contestants(p.scenario, &policies.Source{Store: p.store}, []string{ref}, func(string) {}))
		work := must(p.scenario.Evaluated([]string{name}, requests))
		if foresight {
			fmt.Fprintf(p.Stderr, "clairvoyant on %s, %s\n", ref, name)
			list[0] = policies.Clairvoyant(list[0], planner.ClairvoyantOptions{Horizon: planner.DefaultHorizon})
		}
		plan := evaluation.Plan{Contestants: list, Workloads: work, Seeds: p.seeds[:min(runs, len(p.seeds))]}
		results := must(plan.Evaluate(ctx))
		best = max(best, results[0].Utility.Mean)
	}
	return best
}

// fluidBound returns the linear program over the fleet.
func (p *paper) fluidBound() *planner.Fluid {
	config := must(p.scenario.Simulation())
	return must(planner.NewFluid(config, p.scenario.Workload))
}

// fluid returns the figure of the linear program's bound over the rates.
func (p *paper) fluid(ctx context.Context) report.Figure {
	f := report.Figure{ID: "fluid", Title: "The policy under the fluid bound, at each rate", X: rateAxis, Y: utilityAxis}
	all := p.evaluate(ctx, "hard", p.scenario, []string{p.hard}, []string{"stable"})
	bound := p.fluidBound()
	series := report.Series{Name: "fluid bound", Style: report.Line, X: p.scenario.Evaluation.StableRates}
	for _, rate := range series.X {
		b := must(bound.At(rate))
		series.Y = append(series.Y, b.Utility)
	}
	f.Series = []report.Series{byRate(p.scenario, all, p.hard, "policy", utilityOf), series}
	f.Note = fmt.Sprintf("The bound is for a steady flow. A sweep lasts %v from an idle fleet, which a policy may use up: at high rates it can come close to the bound, or pass it.", time.Duration(p.scenario.Evaluation.PhaseS*float64(time.Second)))
	return f
}

// surface returns the file with the decision surface of the hard policy and of the best rule.
func (p *paper) surface() report.File {
	out := report.File{Name: "surface.csv"}
	list := must(policies.Contestants(p.scenario, &policies.Source{Store: p.store}, []string{p.hard, p.rules[0]}, func(string) {}))
	var b bytes.Buffer
	check(newSurface(p.scenario).encode(&b, list))
	out.Content = b.Bytes()
	return out
}
