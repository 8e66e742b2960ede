package besteffort

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/internal/training/policies"
)

// section returns the frontier as a figure and two tables.
func (f *Frontier) section() report.Section {
	return report.Section{
		ID: "frontier", Title: "Utility against time near the peak",
		Text: fmt.Sprintf("What is best for mean utility is not what keeps windows of 20 requests near their peak. "+
			"Each point is the best for one objective: a policy that is trained for it, and a rule. "+
			"The rule is the best by that objective of those that search finds on training seeds, for each objective, of those that the scenario lists, and of the static sizes alone; it is picked from the runs that are shown, which favours it. "+
			"All numbers are over %d evaluation seeds, of %s weighing the same unless a workload is named.", f.Seeds, evaluation.Together(policies.JudgedBy)),
		Tables:  []report.Table{f.table(), f.windowTable()},
		Figures: []report.Figure{f.figure()},
	}
}

// figure draws mean utility over the share of windows near the peak.
func (f *Frontier) figure() report.Figure {
	out := report.Figure{
		ID: "frontier-figure", Title: "Mean utility against time near the peak",
		X: report.Axis{Label: "Windows of 20 requests with at least 98 % of their peak", Unit: "%"},
		Y: report.Axis{Label: "Utility per request"},
		Series: []report.Series{
			f.series("trained policies", func(p *Point) *Performance { return &p.Policy }),
			f.series("best rules", func(p *Point) *Performance { return &p.Rule }),
		},
		Note: "A point is named by the objective that it is the best for. Intervals are in the tables.",
	}
	large := report.Series{
		Name: f.Large.Policy, Style: report.Points, X: []float64{100 * f.Large.NearPeak.Mean}, Y: []float64{f.Large.Utility.Mean},
		Labels: []string{strings.TrimPrefix(f.Large.Policy, "static:") + " alone"},
	}
	low, high := extent(out.Series)
	if room := high - low; large.Y[0] < low-room { // it would press the lines together
		out.Y.Range = &report.Range{Min: low - room/5, Max: high + room/5}
		large.Labels[0] += fmt.Sprintf(": %.3f", large.Y[0])
	}
	out.Series = append(out.Series, large)
	return out
}

// extent is between which values the series are, which is not nothing.
func extent(all []report.Series) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, s := range all {
		low, high = min(low, slices.Min(s.Y)), max(high, slices.Max(s.Y))
	}
	return low, max(high, low+0.001)
}

// series returns the points, from the least time near the peak to the most. One policy that is the
// best for several objectives is one point. They are policies of their own, which no line joins.
func (f *Frontier) series(name string, of func(*Point) *Performance) report.Series {
	var who []*Performance
	aims := map[string][]string{}
	for i := range f.Points {
		s := of(&f.Points[i])
		if len(aims[s.Policy]) == 0 {
			who = append(who, s)
		}
		aims[s.Policy] = append(aims[s.Policy], f.Points[i].Objective.String())
	}
	slices.SortStableFunc(who, func(a, b *Performance) int { return cmp.Compare(a.NearPeak.Mean, b.NearPeak.Mean) })
	out := report.Series{Name: name, Style: report.Points}
	for _, s := range who {
		out.X, out.Y = append(out.X, 100*s.NearPeak.Mean), append(out.Y, s.Utility.Mean)
		out.Labels = append(out.Labels, strings.Join(aims[s.Policy], "; "))
	}
	return out
}

// table returns what each point is, and how the policy did by its objective.
func (f *Frontier) table() report.Table {
	t := report.Table{
		ID: "frontier-points", Title: "Policies beside the best rule by their objective",
		Columns: []report.Column{
			report.TextColumn("objective", "Objective"),
			report.TextColumn("policy", "Policy"),
			report.IntervalColumn("utility", "Its utility", "", 4),
			report.IntervalColumn("near_peak", "Its windows at 98 %", "%", 1),
			report.IntervalColumn("value", "By the objective", "", 4),
			report.TextColumn("rule", "Best rule"),
			report.IntervalColumn("rule_utility", "Its utility", "", 4),
			report.IntervalColumn("rule_near_peak", "Its windows at 98 %", "%", 1),
			report.IntervalColumn("rule_value", "By the objective", "", 4),
			report.IntervalColumn("margin", "Policy less rule, paired", "", 4),
			report.TextColumn("verdict", "It is"),
		},
		Note: fmt.Sprintf("Margins are by the objective. %s alone has a utility of %.4f and %.1f %% of its windows there. Intervals are 95 %%, by bootstrap over the seeds.",
			f.Large.Policy, f.Large.Utility.Mean, 100*f.Large.NearPeak.Mean),
	}
	for i := range f.Points {
		p := &f.Points[i]
		row := []report.Cell{report.Text(p.Objective.String())}
		for _, s := range []*Performance{&p.Policy, &p.Rule} {
			row = append(row, report.Text(s.Policy), reports.Cell(s.Utility), reports.Cell(reports.Scaled(s.NearPeak, 100)), reports.Cell(s.Value))
		}
		t.Rows = append(t.Rows, append(row, reports.Cell(p.Verdict.Margin), report.Text(p.Verdict.Word())))
	}
	return t
}

// frontierLevels are those of the paper's tables at which a policy may be above the
// largest size alone.
var frontierLevels = evaluation.WindowLevels[1:]

// windowTable returns every point on the paper's two unpredictable workloads, its windows as
// multiples of the largest size's.
func (f *Frontier) windowTable() report.Table {
	t := report.Table{
		ID: "frontier-windows", Title: "Windows of 20 requests at or above a level, as multiples of " + f.Large.Policy + "'s",
		Columns: []report.Column{
			report.TextColumn("objective", "Objective"),
			report.TextColumn("policy", "Policy or rule"),
		},
	}
	for _, name := range []string{"u1", "u2"} {
		t.Columns = append(t.Columns, report.IntervalColumn(name+"_utility", "Utility, "+name, "", 3))
		for _, level := range frontierLevels {
			t.Columns = append(t.Columns, report.NumberColumn(name+"_"+evaluation.LevelName(level), fmt.Sprintf("%s, ≥ %s", name, evaluation.LevelName(level)), "", 2))
		}
	}
	for i := range f.Points {
		p := &f.Points[i]
		t.Rows = append(t.Rows, f.multiples(p.Objective.String(), &p.Policy), f.multiples(p.Objective.String(), &p.Rule))
	}
	t.Rows = append(t.Rows, f.multiples("none", &f.Large))
	return t
}

// multiples returns a row of that table.
func (f *Frontier) multiples(objective string, s *Performance) []report.Cell {
	row := []report.Cell{report.Text(objective), report.Text(s.Policy)}
	for _, name := range []string{"u1", "u2"} {
		row = append(row, reports.Cell(s.On[name].Utility))
		for _, level := range frontierLevels {
			level := evaluation.LevelName(level)
			row = append(row, report.Number(quotient(s.On[name].Windows[level], f.Large.On[name].Windows[level])))
		}
	}
	return row
}

// verdict returns what a report of the frontier alone says first.
func (f *Frontier) verdict() []string {
	words := map[string][]string{}
	least, most := &f.Points[0].Policy, &f.Points[0].Policy
	for i := range f.Points {
		p := &f.Points[i]
		words[p.Verdict.Word()] = append(words[p.Verdict.Word()], p.Objective.String())
		if p.Policy.NearPeak.Mean < least.NearPeak.Mean {
			least = &p.Policy
		}
		if p.Policy.NearPeak.Mean > most.NearPeak.Mean {
			most = &p.Policy
		}
	}
	var parts []string
	for _, word := range []string{evaluation.Better, evaluation.Level, evaluation.Worse, evaluation.Unsettled} {
		if list := words[word]; len(list) > 0 {
			parts = append(parts, word+" for "+evaluation.Together(list))
		}
	}
	return []string{
		"Against the best rule by its own objective the policy is " + strings.Join(parts, ", ") + ".",
		fmt.Sprintf("From %s to %s the policies go from %.1f %% to %.1f %% of windows at 98 %% of their peak, and from a utility of %.4f to %.4f.",
			least.Policy, most.Policy, 100*least.NearPeak.Mean, 100*most.NearPeak.Mean, least.Utility.Mean, most.Utility.Mean),
		fmt.Sprintf("%s alone has %.1f %% of them there, and a utility of %.4f.", f.Large.Policy, 100*f.Large.NearPeak.Mean, f.Large.Utility.Mean),
	}
}

// markdown returns the table of the points for a page of text.
func (f *Frontier) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| objective | policy: utility, windows at 98 %% | best rule | its utility, windows | policy less rule | |\n|---|---|---|---|---|---|\n")
	for i := range f.Points {
		p := &f.Points[i]
		fmt.Fprintf(&b, "| `%s` | %.4f, %.1f %% | `%s` | %.4f, %.1f %% | %s | %s |\n", p.Objective,
			p.Policy.Utility.Mean, 100*p.Policy.NearPeak.Mean, p.Rule.Policy, p.Rule.Utility.Mean, 100*p.Rule.NearPeak.Mean,
			evaluation.Signed(p.Verdict.Margin), p.Verdict.Word())
	}
	fmt.Fprintf(&b, "| | | `%s` | %.4f, %.1f %% | | |\n", f.Large.Policy, f.Large.Utility.Mean, 100*f.Large.NearPeak.Mean)
	return b.String()
}
