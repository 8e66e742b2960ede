package besteffort

import (
	"context"
	"fmt"
	"slices"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/internal/scenario"
)

// paperWindows are the paper's Tables 3 and 4: for each level the number of
// windows of the policy, of the largest static size, and of the middle one.
var paperWindows = map[string][5][3]float64{
	"u1": {{142, 307, 0}, {470, 307, 0}, {713, 307, 0}, {1264, 307, 0}, {1723, 625, 154}},
	"u2": {{447, 1378, 0}, {1977, 1378, 0}, {3121, 1378, 0}, {4141, 1378, 0}, {4740, 2810, 168}},
}

// unstableSection is Figures 6 and 7, and Tables 3 and 4.
func (p *paper) unstableSection(ctx context.Context, out *reports.Part) {
	out.Text = unstableText(p.scenario.Evaluation.Requests)
	for _, name := range []string{"u1", "u2"} {
		fig, table := "fig6", "table3"
		if name == "u2" {
			fig, table = "fig7", "table4"
		}
		windows := p.windowTable(ctx, table, name)
		figures := p.timeline(ctx, p.scenario, fig, "Figure "+fig[3:], name, p.hard)
		out.Tables, out.Figures = append(out.Tables, windows), append(out.Figures, figures...)
	}
}

// unstableText says what is played, in runs of so many requests.
func unstableText(requests int) string {
	return "Requests of random rates that switch at random (LBE-20, LBE-21; the second reads \"between 1 and 48\" as either of the two). " +
		"The policies know no rate but their own estimates. " +
		fmt.Sprintf("Windows are running means over 20 requests (LBE-22), counted per run of %d requests; the paper's are of 10000.", requests)
}

// windowTable counts the windows near peak performance, next to the paper's.
func (p *paper) windowTable(ctx context.Context, id, name string) report.Table {
	large, middle := "static:"+largest(p.scenario), "static:"+p.scenario.Variants[len(p.scenario.Variants)-2].Name
	all := p.evaluate(ctx, "hard", p.scenario, append([]string{p.hard, p.windows, large, middle}, p.rules...), []string{name})
	t := report.Table{
		ID: id, Title: fmt.Sprintf("Table %s: windows of 20 requests at or above a level, on %s", id[5:], name),
		Columns: []report.Column{
			report.NumberColumn("level", "Level", "", 2), report.BesideColumn("policy", "Policy", "", 0), report.BesideColumn("large", large, "", 0),
			report.BesideColumn("middle", middle, "", 0), report.BesideColumn("ratio", "Policy to "+large, "", 2), report.NumberColumn("rule", p.rules[0], "", 0),
			report.NumberColumn("windows", "Tuned for windows", "", 0), report.BesideColumn("windows_ratio", "Tuned for windows to "+large, "", 2),
		},
		Note: fmt.Sprintf("What is best for the mean is not what is best for windows: %s, the rule that search finds for these, earns %.4f on %s where the policy earns %.4f.",
			p.windows, all[[2]string{p.windows, name}].Utility.Mean, name, all[[2]string{p.hard, name}].Utility.Mean),
	}
	for i, level := range evaluation.WindowLevels {
		of := func(ref string) float64 {
			return all[[2]string{ref, name}].Windows[evaluation.LevelName(level)]
		}
		theirs := paperWindows[name][i]
		t.Rows = append(t.Rows, []report.Cell{
			report.Number(level), report.Beside(of(p.hard), theirs[0]), report.Beside(of(large), theirs[1]),
			report.Beside(of(middle), theirs[2]), report.Beside(quotient(of(p.hard), of(large)), theirs[0]/theirs[1]),
			report.Number(of(p.rules[0])), report.Number(of(p.windows)), report.Beside(quotient(of(p.windows), of(large)), theirs[0]/theirs[1]),
		})
	}
	return t
}

// timeline draws one run request by request: the rate, the running average, and
// the average over the last 20 of each policy.
func (p *paper) timeline(ctx context.Context, s *scenario.Scenario, id, title, name, policy string) []report.Figure {
	refs := append([]string{policy}, statics(s)...)
	slices.Reverse(refs[1:]) // the best first
	requests := report.Axis{Label: "Request"}
	rate := report.Figure{ID: id + "-rate", Title: title + ": arrival rate, " + name, X: requests, Y: report.Axis{Label: "Rate", Unit: "requests/s"}, Half: true}
	total := report.Figure{ID: id + "-running", Title: title + ": running average, " + name, X: requests, Y: utilityAxis, Half: true}
	figures := []report.Figure{rate, total}
	for i, ref := range refs {
		runs := p.sample(ctx, s, ref, name, 1)
		if i == 0 {
			figures[0].Series = []report.Series{rateSeries(runs[0])}
		}
		label := ref
		if i == 0 {
			label = "policy"
		}
		x, y := running(runs[0])
		figures[1].Series = append(figures[1].Series, report.Series{Name: label, Style: report.Line, X: x, Y: y})
		x, y = windowed(runs[0], relative)
		figures = append(figures, report.Figure{
			ID: fmt.Sprintf("%s-windows-%d", id, i), Title: fmt.Sprintf("%s: last 20 requests, %s", title, label), X: requests,
			Y: report.Axis{Label: "Share of peak", Range: &report.Range{Min: 0, Max: 1.02}}, Half: true,
			Series: []report.Series{{Name: label, Style: report.Line, X: x, Y: y}},
		})
	}
	return figures
}

func rateSeries(samples []evaluation.Sample) report.Series {
	s := report.Series{Name: "rate", Style: report.Step}
	for i, x := range samples {
		if n := len(s.Y); n == 0 || s.Y[n-1] != x.Rate || i == len(samples)-1 {
			s.X, s.Y = append(s.X, float64(i+1)), append(s.Y, x.Rate)
		}
	}
	return s
}
