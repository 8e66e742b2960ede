//go:build !serveonly

package profiling

import (
	"fmt"

	"gearshift/env/evaluation/report"
	"gearshift/env/fit"
	"gearshift/env/fit/steady"
)

// WriteResiduals writes a report, into the folder, of what the fitted model leaves unexplained.
func WriteResiduals(log *fit.Log, f *fit.Fitted, dir string) error {
	times, err := f.Predict(log.Requests)
	if err != nil {
		return err
	}
	var arrivals, e2e, predicted, residual, ttft, tpotAt, tpot []float64
	for i, r := range log.Requests {
		p := r
		p.First, p.Last = times[i].First, times[i].Last
		arrivals = append(arrivals, r.Arrival)
		e2e, predicted = append(e2e, r.EndToEnd()), append(predicted, p.EndToEnd())
		residual = append(residual, p.EndToEnd()/r.EndToEnd()-1)
		ttft = append(ttft, p.TTFT()/r.TTFT()-1)
		if r.OutputTokens > 1 {
			tpotAt, tpot = append(tpotAt, r.Arrival), append(tpot, p.TPOT()/r.TPOT()-1)
		}
	}
	over := func(id, title string, x, y []float64) report.Figure {
		return report.Figure{
			ID: id, Title: title, Half: true,
			X:      report.Axis{Label: "arrival", Unit: "s"},
			Y:      report.Axis{Label: "predicted / measured − 1"},
			Series: []report.Series{{Name: "requests", Style: report.Points, X: x, Y: y}},
		}
	}
	verdict := "The model fits."
	if !f.Fits {
		verdict = fmt.Sprintf("The model does not fit: a median error is above %.0f %%.", 100*fit.Misfit)
	}
	page := report.Report{
		Title: "A profile fitted to requests", Scenario: fmt.Sprintf("%d requests of %s", f.Requests, log.Name),
		Verdict: []string{
			verdict,
			fmt.Sprintf("The median error is %.1f %% end to end, %.1f %% in the time per token.", 100*f.Errors.EndToEnd.Median, 100*f.Errors.TPOT.Median),
			fmt.Sprintf("It explains %.1f %% of the variance of the latency's logarithm.", 100*f.Explained),
		},
		Sections: []report.Section{{
			ID: "residuals", Title: "Residuals", Text: "What the model leaves unexplained, on the requests that it was fitted to.",
			Figures: []report.Figure{
				{
					ID: "latency", Title: "Predicted and measured latency", Half: true,
					X: report.Axis{Label: "measured", Unit: "s"}, Y: report.Axis{Label: "predicted", Unit: "s"},
					Series: []report.Series{{Name: "requests", Style: report.Points, X: e2e, Y: predicted}},
				},
				over("end-to-end", "End to end", arrivals, residual), over("ttft", "Time to the first token", arrivals, ttft),
				over("tpot", "Time per token", tpotAt, tpot),
			},
		}},
		Repeat: "gearshift profile fit --requests " + log.Name + " --out DIR",
	}
	return page.Write(dir)
}

// WriteReport writes a report, into the folder, of what the model leaves unexplained.
func (p *Profile) WriteReport(dir string) error {
	f, m := p.fitted, &p.Measured
	verdict := "The model fits."
	if !f.Fits() {
		verdict = "The model does not fit: " + f.Faults[0] + "."
	}
	alone := "No request alone could be simulated."
	if s := m.Simulated; s != nil {
		alone = fmt.Sprintf("Simulated, the requests alone are off by %.1f %% end to end in the median.", 100*s.EndToEnd.Median)
	}
	page := report.Report{
		Title: "A measured profile: " + m.Model, Scenario: fmt.Sprintf("%d requests to %s in %.0f s, %s; %s", m.Requests, m.Engine, m.Seconds, m.Date, m.Machine),
		Verdict: []string{verdict, fmt.Sprintf("It explains %.1f %% of the variance of the times' logarithm.", 100*f.Explained), alone},
		Repeat:  "gearshift profile measure --url " + m.Engine + "/v1 --model " + m.Model + " --report DIR",
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
