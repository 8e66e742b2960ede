package besteffort

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/internal/scenario"
)

// sweep is one stable workload, played by a policy and the static sizes.
type sweep struct {
	scenario *scenario.Scenario
	policy   string
	all      rows
	// share[rate][task][variant] of the policy's choices.
	share [][][]float64
}

// sweepRuns is how many runs the choices by task are counted over.
const sweepRuns = 10

func (p *paper) sweep(ctx context.Context, label string, s *scenario.Scenario, policy string, beside ...string) *sweep {
	all := p.evaluate(ctx, label, s, append(append([]string{policy}, statics(s)...), beside...), []string{"stable"})
	w := &sweep{scenario: s, policy: policy, all: all}
	for _, name := range stableNames(s) {
		runs := p.sample(ctx, s, policy, name, sweepRuns)
		w.share = append(w.share, choices(s, runs))
	}
	return w
}

// utility returns the figure of all policies' utilities by rate.
func (w *sweep) utility(id, title string, beside ...string) report.Figure {
	f := report.Figure{ID: id, Title: title, X: rateAxis, Y: utilityAxis, Half: true}
	f.Series = append(f.Series, byRate(w.scenario, w.all, w.policy, "policy", utilityOf))
	for _, ref := range append(statics(w.scenario), beside...) {
		f.Series = append(f.Series, byRate(w.scenario, w.all, ref, ref, utilityOf))
	}
	return f
}

// figures returns the utilities and the choices over all tasks as figure n, and the choices task
// by task as the next. Deadlines, if any, is what the titles say of them.
func (w *sweep) figures(n int, policy, deadlines string, beside ...string) []report.Figure {
	list := []report.Figure{
		w.utility(fmt.Sprintf("fig%d-utility", n), fmt.Sprintf("Figure %d, left: utility by rate%s", n, deadlines), beside...),
		w.choices(fmt.Sprintf("fig%d-choices", n), fmt.Sprintf("Figure %d, right: what the %s chooses", n, policy), -1),
	}
	for t, task := range taskNames(w.scenario) {
		list = append(list, w.choices(fmt.Sprintf("fig%d-%s", n+1, task), fmt.Sprintf("Figure %d: choices for %s%s", n+1, task, deadlines), t))
	}
	return list
}

// choices returns the figure of the policy's shares by rate: of one task, or of all
// if task is negative.
func (w *sweep) choices(id, title string, task int) report.Figure {
	f := report.Figure{ID: id, Title: title, X: rateAxis, Y: report.Axis{Label: "Share of requests", Range: &report.Range{Min: 0, Max: 1}}, Half: true}
	for v, variant := range w.scenario.Variants {
		s := report.Series{Name: variant.Name, Style: report.Line, X: w.scenario.Evaluation.StableRates}
		for i := range s.X {
			s.Y = append(s.Y, w.shareAt(i, task, v))
		}
		f.Series = append(f.Series, s)
	}
	return f
}

func (w *sweep) shareAt(rate, task, variant int) float64 {
	if task >= 0 {
		return w.share[rate][task][variant]
	}
	r := w.all[[2]string{w.policy, stableName(w.scenario.Evaluation.StableRates[rate])}]
	return r.Share[w.scenario.Variants[variant].Name]
}

// usage returns the integral of a variant's share of a task's requests over the rate,
// by the trapezoidal rule: the paper's measure of Table 2, in requests/s.
func (w *sweep) usage(task, variant int) float64 {
	var sum float64
	rates := w.scenario.Evaluation.StableRates
	for i := 1; i < len(rates); i++ {
		sum += (rates[i] - rates[i-1]) * (w.share[i][task][variant] + w.share[i-1][task][variant]) / 2
	}
	return sum
}

// uses is Figure 3 in numbers: what the policy has of each size, by task.
func (w *sweep) uses() report.Table {
	t := report.Table{
		ID: "stable-use", Title: "Figure 3 in numbers: use of each size by task, the integral of its share over the rate",
		Columns: []report.Column{report.TextColumn("task", "Task")},
	}
	for v, variant := range w.scenario.Variants {
		t.Columns = append(t.Columns, report.NumberColumn(fmt.Sprintf("size_%d", v+1), variant.Name, "requests/s", 2))
	}
	for task, name := range taskNames(w.scenario) {
		row := []report.Cell{report.Text(name)}
		for v := range w.scenario.Variants {
			row = append(row, report.Number(w.usage(task, v)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// stableSection is Figures 2 and 3, and what the rules do at the same rates.
func (p *paper) stableSection(ctx context.Context, out *reports.Part) {
	w := p.sweep(ctx, "hard", p.scenario, p.hard, p.rules[0])
	out.Text = fmt.Sprintf("Poisson arrivals at each rate for %g s from an idle fleet; the policies know the true rate (LBE-19). Static sizes run alone with the whole memory (LBE-18).", p.scenario.Evaluation.PhaseS)
	out.Figures = w.figures(2, "policy", ", hard deadlines", p.rules[0])
	rates := p.rateTable(ctx)
	availability := p.availability(ctx, w)
	out.Tables = append(out.Tables, rates, availability, w.uses())
}

// rateTable holds the policy against the best of everything else at each rate.
func (p *paper) rateTable(ctx context.Context) report.Table {
	t := report.Table{
		ID: "stable-rates", Title: "The policy against the best of all baselines at each rate",
		Columns: slices.Concat([]report.Column{report.NumberColumn("rate", "Rate", "requests/s", 2)}, comparison("baseline", 3), []report.Column{report.NumberColumn("fluid", "Fluid bound", "", 3)}),
		Note:    "The best baseline is picked at each rate from the same runs, static sizes alone on the whole fleet among them: the hardest comparison. The fluid bound is of the fleet that the sizes share: at a steady rate no policy on it can do better but by chance, a static size that has the fleet to itself may.",
	}
	baselines := append(statics(p.scenario), p.rules...)
	all := p.evaluate(ctx, "hard", p.scenario, append([]string{p.hard}, baselines...), []string{"stable"})
	fluid := p.fluidBound()
	for _, rate := range p.scenario.Evaluation.StableRates {
		name, best := bestOf(all, baselines, stableName(rate))
		bound := must(fluid.Over([]float64{rate}))
		row := append([]report.Cell{report.Number(rate)}, compared(all[[2]string{p.hard, stableName(rate)}], name, best)...)
		t.Rows = append(t.Rows, append(row, report.Number(bound)))
	}
	return t
}

// available is the share of deadlines that counts as available (the paper's section 4.2).
const available = 0.95

// availability asks what the policy makes of ten times the rate that the largest
// size alone can bear.
func (p *paper) availability(ctx context.Context, w *sweep) report.Table {
	t := report.Table{
		ID: "availability", Title: "Deadlines met at ten times the rate that the largest size bears",
		Columns: []report.Column{report.TextColumn("policy", "Policy"), report.NumberColumn("rate", "Rate", "requests/s", 2), report.IntervalColumn("met", "Deadlines met", "", 3)},
	}
	large := "static:" + largest(p.scenario)
	bears, met := p.scenario.Evaluation.StableRates[0], 1.0
	for _, rate := range p.scenario.Evaluation.StableRates {
		at := w.all[[2]string{large, stableName(rate)}].DeadlineMet.Mean
		if at < available {
			bears += (rate - bears) * (met - available) / (met - at) // where the line between the two crosses
			break
		}
		bears, met = rate, at
	}
	// Rates are names too: two decimals are enough.
	for _, rate := range []float64{math.Round(100*bears) / 100, math.Round(1000*bears) / 100} {
		for _, ref := range []string{p.hard, large} {
			all := p.evaluate(ctx, "hard", p.scenario, []string{ref}, []string{stableName(rate)})
			t.Rows = append(t.Rows, []report.Cell{report.Text(ref), report.Number(rate), reports.Cell(all[[2]string{ref, stableName(rate)}].DeadlineMet)})
		}
	}
	return t
}

// softSection is Figures 4 and 5, and Table 2.
func (p *paper) softSection(ctx context.Context, out *reports.Part) {
	hard := p.sweep(ctx, "hard", p.scenario, p.hard)
	s := softened(p.scenario)
	w := p.sweep(ctx, "soft", s, p.soft)
	out.Text = "The policy is the hard one, fine-tuned on soft deadlines: 1 % of the reward lost for each ms past the deadline, all of it from 10 % (LBE-3, LBE-25)."
	out.Figures = w.figures(4, "soft policy", ", soft deadlines")
	table := report.Table{
		ID: "table2", Title: "Table 2: use of " + largest(s) + " by task, the integral of its share over the rate",
		Columns: []report.Column{
			report.TextColumn("task", "Task"), report.BesideColumn("hard", "Hard", "requests/s", 2), report.BesideColumn("soft", "Soft", "requests/s", 2),
			report.BesideColumn("rise", "Rise", "requests/s", 2), report.BesideColumn("change", "Rise", "%", 0),
		},
	}
	for t, task := range taskNames(s) {
		v := len(s.Variants) - 1
		a, b, theirs := hard.usage(t, v), w.usage(t, v), paperUsage[task]
		table.Rows = append(table.Rows, []report.Cell{
			report.Text(task), report.Beside(a, theirs[0]), report.Beside(b, theirs[1]),
			report.Beside(b-a, theirs[1]-theirs[0]), report.Beside(100*(quotient(b, a)-1), 100*(quotient(theirs[1], theirs[0])-1)),
		})
	}
	out.Tables = []report.Table{table}
}

// paperUsage is the paper's Table 2: hard, soft.
var paperUsage = map[string][2]float64{
	"hellaswag": {2.53, 3.86}, "copa": {1.08, 1.16}, "piqa": {1.22, 1.33}, "openbookqa": {1.30, 1.34},
}
