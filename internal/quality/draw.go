//go:build !serveonly

package quality

import (
	"errors"

	"gearshift/env/evaluation/report"
)

// mostDrawn is the number of models whose reliability is drawn: more lines are hard to distinguish.
const mostDrawn = 5

// Picture returns an SVG file of the gain by share of the main pair, and below it of how true
// predictions are.
func (r *Report) Picture() ([]byte, error) {
	main := r.Main()
	if main == nil || len(main.Curve) == 0 {
		return nil, errors.New("cannot draw: there is no pair of models to compare")
	}
	gain, reliability := main.figure(), r.reliability()
	return report.Stacked(&gain, &reliability)
}

// figure draws the gain by share.
func (p *Pair) figure() report.Figure {
	f := report.Figure{
		ID: "gain", Title: "Gain over random",
		X: report.Axis{Label: "share answered by " + p.Large, Unit: "%"}, Y: report.Axis{Label: "gain in mean score over random"},
	}
	predicted := report.Series{Name: "by predicted gain, with its 95 % interval", Style: report.Line}
	task := report.Series{Name: "by the task's mean", Style: report.Line}
	oracle := report.Series{Name: "by the true scores", Style: report.Line}
	for _, at := range p.Curve {
		x := 100 * at.Share
		predicted.X, predicted.Y = append(predicted.X, x), append(predicted.Y, at.Gain.Mean)
		predicted.Lo, predicted.Hi = append(predicted.Lo, at.Gain.Lo), append(predicted.Hi, at.Gain.Hi)
		task.X, task.Y = append(task.X, x), append(task.Y, at.Task)
		oracle.X, oracle.Y = append(oracle.X, x), append(oracle.Y, at.Oracle)
	}
	f.Series = []report.Series{predicted}
	if p.OverTask != nil {
		f.Series = append(f.Series, task)
	}
	f.Series = append(f.Series, oracle)
	return f
}

// reliability draws mean scores over predictions.
func (r *Report) reliability() report.Figure {
	whole := &report.Range{Min: 0, Max: 1}
	f := report.Figure{
		ID: "reliability", Title: "How true predictions are",
		X: report.Axis{Label: "predicted score", Range: whole}, Y: report.Axis{Label: "mean score of such prompts", Range: whole},
		Series: []report.Series{{Name: "as predicted", Style: report.Line, X: []float64{0, 1}, Y: []float64{0, 1}}},
	}
	for _, c := range r.Columns[max(0, len(r.Columns)-mostDrawn):] {
		s := report.Series{Name: c.Name, Style: report.Line}
		for _, b := range c.Bins {
			s.X, s.Y = append(s.X, b.Predicted), append(s.Y, b.Scored)
		}
		f.Series = append(f.Series, s)
	}
	return f
}
