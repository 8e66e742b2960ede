package prompts

import (
	"context"
	"math/rand/v2"
	"slices"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/router/quality"
)

// drawn measures a draw of labels on the other prompts.
type drawn struct {
	gains [3]float64 // predicted, neighbours, factors
	calibration
	sure float64
}

// labels shows how many labels it takes, on traffic like that of the labels.
func (s *study) labels(ctx context.Context, p *reports.Part) error {
	x := s.sets[0].only(s.sets[0].pairs[usual])
	sizes := []int{30, 100, 300, 1000, 3000, 5000}
	if s.Quick {
		sizes = []int{30, 300, 3000}
	}
	sizes = slices.DeleteFunc(sizes, func(n int) bool { return n > len(x.examples)-parts })
	p.Say("%s, %d draws of labelled prompts; the others are predicted. Gains are over random, in the mean over all shares, with the median and, in brackets, the 10th and 90th percentile of the draws. "+
		"For calibration the predicted prompts are divided into %d parts by their predictions: by how much a part's mean prediction is off its mean score, and would be if it were true, since scores vary; and the share of parts whose mean score is not lower than the lower bounds that a quality floor is compared with, by more than chance explains at 95 %%.", x.name(x.pairs[0]), s.Seeds, parts)
	all, err := reports.Grid(ctx, s.Run, len(sizes), s.Seeds, func(_ context.Context, i, k int) (drawn, error) { return x.draw(sizes[i], uint64(k)) })
	if err != nil {
		return err
	}
	t := report.Table{ID: "gain-by-labels", Title: p.Title, Columns: []report.Column{
		report.NumberColumn("labels", "Labels", "", 0), report.IntervalColumn("predicted", "Predicted", "", 4), report.NumberColumn("above", "Draws above random", "%", 0),
		report.IntervalColumn("neighbours", "Nearest prompts", "", 4), report.IntervalColumn("factors", "Matrix factorisation", "", 4),
		report.IntervalColumn("off", "Predictions off", "", 3), report.NumberColumn("chance", "by chance alone", "", 3), report.NumberColumn("kept", "Lower bounds kept", "%", 1), report.NumberColumn("below", "which are below predictions by", "", 3), report.NumberColumn("sure", "Sure", "", 2),
	}}
	f := report.Figure{ID: "labels-figure", Title: "Gain over random by number of labels", X: report.Axis{Label: "labelled prompts", Log: true}, Y: report.Axis{Label: "gain in mean score"}}
	for _, m := range []method{predicted, neighbours, factors} {
		f.Series = append(f.Series, report.Series{Name: m.name, Style: report.Line})
	}
	for i, n := range sizes {
		draws := all[i]
		of := func(what func(drawn) float64) evaluation.Interval { return median(reports.Values(draws, what)) }
		row := []report.Cell{report.Number(float64(n))}
		for k := range f.Series {
			v := of(func(d drawn) float64 { return d.gains[k] })
			add(&f.Series[k], float64(n), v)
			if row = append(row, reports.Cell(v)); k == 0 {
				row = append(row, report.Number(100*average(draws, func(d drawn) float64 { return above(d.gains[0]) })))
			}
			if k == 0 && (n == 300 || n == 3000) {
				p.Head("With %d labels of %s, predicted gains %.4f in the median of %d draws (10th to 90th percentile %.4f to %.4f).", n, x.name(x.pairs[0]), v.Mean, len(draws), v.Lo, v.Hi)
			}
		}
		t.Rows = append(t.Rows, append(row, reports.Cell(of(func(d drawn) float64 { return d.off })), report.Number(average(draws, func(d drawn) float64 { return d.chance })), report.Number(100*average(draws, func(d drawn) float64 { return d.kept })),
			report.Number(average(draws, func(d drawn) float64 { return d.below })), report.Number(average(draws, func(d drawn) float64 { return d.sure }))))
	}
	p.Tables, p.Figures = []report.Table{t}, []report.Figure{f}
	return nil
}

// draw fits to so many prompts of the set, and measures on the others.
func (x *set) draw(n int, seed uint64) (d drawn, err error) {
	order := rand.New(rand.NewPCG(seed, key)).Perm(len(x.examples))
	train, test := order[:n], order[n:]
	m, _, err := quality.Fit(x.of(train), x.Columns, quality.Options{Key: key, Seed: seed})
	if err != nil {
		return d, err
	}
	rows, sure := predictAll(m, x.of(test))
	y := x.at(test)
	d.gains[0], d.sure = y.gainOf(y.pairs[0], rows), average(sure, func(s float64) float64 { return s })
	for c := range x.Columns {
		predicted, low := make([]float64, len(test)), make([]float64, len(test))
		scores := make([]float64, len(test))
		for i := range test {
			scores[i], predicted[i], low[i] = float64(y.examples[i].Scores[c]), rows[i][c], m.Low(c, rows[i][c])
		}
		k := calibrated(scores, predicted, low)
		share := 1 / float64(len(x.Columns))
		d.off, d.chance, d.kept, d.below = d.off+share*k.off, d.chance+share*k.chance, d.kept+share*k.kept, d.below+share*k.below
	}
	for k, peer := range []method{neighbours, factors} {
		predict, err := peer.fit(x, train, seed)
		if err != nil {
			return d, err
		}
		rows := make([][]float64, len(test))
		for i, at := range test {
			rows[i] = make([]float64, len(x.Columns))
			predict(at, rows[i])
		}
		d.gains[1+k] = y.gainOf(y.pairs[0], rows)
	}
	return d, nil
}

// predictAll returns what the regression predicts of each example, and how sure it is.
func predictAll(m *quality.Regression, examples []quality.Example) (rows [][]float64, sure []float64) {
	for i := range examples {
		row := make([]float64, len(m.Columns()))
		sure = append(sure, m.Predict(&examples[i].Sample, row))
		rows = append(rows, row)
	}
	return rows, sure
}

// gainOf returns the gain over random of a pair by what is predicted of each prompt.
func (x *set) gainOf(p pair, rows [][]float64) float64 {
	return rank(x.truth(p), p.expected(rows)).gain(once(len(rows)))
}

// median returns the median with the 10th and the 90th percentile.
func median(values []float64) evaluation.Interval {
	slices.Sort(values)
	at := func(part float64) float64 {
		k := part * float64(len(values)-1)
		low := int(k)
		return values[low] + (k-float64(low))*(values[min(low+1, len(values)-1)]-values[low])
	}
	return evaluation.Interval{Mean: at(0.5), Lo: at(0.1), Hi: at(0.9)}
}

// average returns the mean of a quantity.
func average[R any](runs []R, of func(R) float64) (mean float64) {
	for _, r := range runs {
		mean += of(r) / float64(len(runs))
	}
	return mean
}

// above counts what is above zero.
func above(x float64) float64 {
	if x > 0 {
		return 1
	}
	return 0
}
