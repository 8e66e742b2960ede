package prompts

import (
	"context"
	"fmt"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
)

// column is a method with what it predicts of each prompt; nil of nothing.
type column struct {
	name string
	held [][]float64
}

// gain compares ways to choose by the prompt, out of fold.
func (s *study) gain(ctx context.Context, p *reports.Part) error {
	p.Say("The larger model answers a share of the prompts: those where most is gained by it, as predicted from the other four of five folds. Gains are in the mean score of all prompts over random, in the mean over all shares. Intervals are of 1,000 resamples of the prompts; differences are paired by them. " +
		"Random is what the task's mean gives where prompts name no task. The nearest 40 prompts, by the cosine of their words, and the matrix factorisation (RouteLLM's, arXiv 2406.18665) are rebuilt from their papers on the same labels, folds and hashed words: no model that embeds prompts is at hand, so that a published router with one may do better.")
	t := report.Table{ID: "gain-by-pair", Title: p.Title, Columns: []report.Column{
		report.TextColumn("pair", "Small / large"), report.NumberColumn("prompts", "Prompts", "", 0), report.NumberColumn("small", "Small", "", 3), report.NumberColumn("large", "Large", "", 3),
		report.TextColumn("by", "Ordered"), report.IntervalColumn("gain", "Gain over random", "", 4), report.NumberColumn("reached", "Of the oracle's", "%", 0), report.IntervalColumn("difference", "Predicted, less this", "", 4),
	}, Note: "A mean of methods is one of their predicted scores. The oracle knows all scores."}
	f := report.Figure{ID: "gain-figure", Title: "Gain over random", Y: report.Axis{Label: "gain in mean score"}, X: report.Axis{Label: "small / large"}}
	for _, x := range s.sets {
		columns, err := s.columns(ctx, x)
		if err != nil {
			return err
		}
		for _, at := range x.pairs {
			s.compare(p, &t, &f, x, at, columns)
		}
	}
	p.Tables, p.Figures = []report.Table{t}, []report.Figure{f}
	return nil
}

// columns predicts a set by all methods.
func (s *study) columns(ctx context.Context, x *set) ([]column, error) {
	methods := []method{predicted, neighbours, factors}
	if len(x.groups()) > 1 {
		methods = append(methods, byGroup)
	}
	held, err := s.held(ctx, x, methods)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", x.Name, err)
	}
	var list []column
	for k, m := range methods {
		list = append(list, column{m.name, held[k]})
	}
	return append(list,
		column{"predicted + nearest", mean(held[0], held[1])}, column{"predicted + factors", mean(held[0], held[2])},
		column{"all three", mean(held[0], held[1], held[2])}), nil
}

// compare adds the rows and the bars of a pair.
func (s *study) compare(p *reports.Part, t *report.Table, f *report.Figure, x *set, at pair, columns []column) {
	truth := x.truth(at)
	var rankings []*ranking
	for _, c := range columns {
		rankings = append(rankings, rank(truth, at.expected(c.held)))
	}
	rankings = append(rankings, rank(truth, truth))
	all := estimates(rankings, 1)
	means := x.Means()
	oracle := all[len(columns)]
	f.X.Categories = append(f.X.Categories, x.Name+": "+x.name(at))
	for k, e := range all {
		name := "oracle"
		if k < len(columns) {
			name = columns[k].name
		}
		difference := report.Cell{}
		if k > 0 {
			difference = reports.Cell(all[0].less(e).interval())
		}
		t.Rows = append(t.Rows, []report.Cell{report.Text(x.name(at)), report.Number(float64(len(rankings[0].order))), report.Number(means[at.small]), report.Number(means[at.large]),
			report.Text(name), reports.Cell(e.interval()), report.Number(100 * e.value / oracle.value), difference})
		if k < 4 && k < len(columns) {
			bar(f, name, e.interval())
		}
	}
	best, g := 1, all[0].interval()
	for k := range columns {
		if k > 0 && all[k].value > all[best].value {
			best = k
		}
	}
	d := all[0].less(all[best]).interval()
	p.Head("%s: predicted gains %s over random, %.0f %% of the oracle's; the best other, %s, has %s less.", x.name(at), evaluation.Signed(g), 100*all[0].value/oracle.value, columns[best].name, evaluation.Signed(d))
}

// bar adds a bar at the last category to the series of the name.
func bar(f *report.Figure, name string, v evaluation.Interval) {
	at := -1
	for i := range f.Series {
		if f.Series[i].Name == name {
			at = i
		}
	}
	if at < 0 {
		at = len(f.Series)
		f.Series = append(f.Series, report.Series{Name: name, Style: report.Bars})
	}
	add(&f.Series[at], float64(len(f.X.Categories)-1), v)
}

// add adds a point with its interval to a series.
func add(s *report.Series, x float64, v evaluation.Interval) {
	s.X, s.Y, s.Lo, s.Hi = append(s.X, x), append(s.Y, v.Mean), append(s.Lo, v.Lo), append(s.Hi, v.Hi)
}
