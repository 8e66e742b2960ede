//go:build !serveonly

package profiling

import (
	"fmt"

	"gearshift/env/evaluation/report"
	"gearshift/env/fit"
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
