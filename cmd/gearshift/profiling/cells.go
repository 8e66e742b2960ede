//go:build !serveonly

package profiling

import (
	"fmt"

	"gearshift/env/evaluation/report"
	"gearshift/env/fit/steady"
)

// WriteReport writes a report, into the folder, of what the model leaves unexplained.
func (p *Profile) WriteReport(dir string) error {
	f, m := p.fitted, &p.Measured
	verdict := "The model fits."
	if !f.Fits() {
		verdict = "The model does not fit: " + f.Faults[0] + "."
	}
	page := report.Report{
		Title: "A measured profile: " + m.Model, Scenario: fmt.Sprintf("%d requests to %s in %.0f s, %s; %s", m.Requests, m.Engine, m.Seconds, m.Date, m.Machine),
		Verdict: []string{verdict, fmt.Sprintf("It explains %.1f %% of the variance of the times' logarithm.", 100*f.Explained)},
		Repeat:  "gearshift profile measure --url " + m.Engine + "/v1 --model " + m.Model + " --report DIR",
	}
	if s := m.Simulated; s != nil {
		page.Verdict = append(page.Verdict, fmt.Sprintf("Simulated, the requests alone are off by %.1f %% end to end in the median.", 100*s.EndToEnd.Median))
	}
	residuals := report.Section{ID: "residuals", Title: "Residuals", Text: "What the model leaves unexplained, load by load."}
	for _, q := range f.Quality {
		residuals.Figures = append(residuals.Figures, figureOf(q.Kind, f.Cells))
	}
	page.Sections = []report.Section{qualitySection(f), residuals}
	return page.Write(dir)
}

func qualitySection(f *steady.Fitted) report.Section {
	t := report.Table{ID: "kinds", Title: "How well the model explains the loads", Columns: []report.Column{
		{Key: "kind", Title: "what", Kind: report.KindText},
		{Key: "cells", Title: "loads", Kind: report.KindNumber},
		{Key: "r2", Title: "R²", Kind: report.KindNumber, Decimals: 3},
		{Key: "median", Title: "median error", Unit: "%", Kind: report.KindNumber, Decimals: 1},
		{Key: "p90", Title: "p90", Unit: "%", Kind: report.KindNumber, Decimals: 1},
		{Key: "worst", Title: "worst", Kind: report.KindText},
	}}
	for _, q := range f.Quality {
		t.Rows = append(t.Rows, []report.Cell{
			report.Text(q.Kind), report.Number(float64(q.Cells)), report.Number(q.R2), report.Number(100 * q.Median), report.Number(100 * q.P90),
			report.Text(fmt.Sprintf("%s, %+.0f %%", q.Worst, 100*q.WorstBy)),
		})
	}
	return report.Section{ID: "quality", Title: "Fit", Tables: []report.Table{t}}
}

// figureOf draws the errors of one kind of loads, over prompt tokens or context.
func figureOf(kind string, cells []steady.Cell) report.Figure {
	f := report.Figure{Title: kind, Half: true, Y: report.Axis{Label: "predicted / measured − 1"}}
	series := map[int]*report.Series{}
	var order []int
	for i, k := range steady.Kinds {
		if k == kind {
			f.ID = fmt.Sprintf("residuals-%d", i)
		}
	}
	f.X = report.Axis{Label: "context", Unit: "tokens"}
	for i := range cells {
		c := &cells[i]
		if c.Kind() != kind {
			continue
		}
		x := c.Context
		if c.Prefill {
			x, f.X.Label = float64(c.Tokens), "prompt"
		}
		s, ok := series[c.Sequences]
		if !ok {
			s = &report.Series{Name: fmt.Sprintf("%d at once", c.Sequences), Style: report.Points}
			series[c.Sequences] = s
			order = append(order, c.Sequences)
		}
		s.X, s.Y = append(s.X, x), append(s.Y, c.Error())
	}
	for _, n := range order {
		f.Series = append(f.Series, *series[n])
	}
	return f
}
