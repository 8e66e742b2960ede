package prompts

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/router/quality"
)

// few groups are left out one by one; of more, half are at random.
const few = 8

// split measures a fit to some prompts on the others.
type split struct {
	sure  float64
	pairs []tested
}

// tested is a pair of a split: gains over random of what is predicted and of that shrunk toward the
// mean scores of the fit, and by how much mean predictions are off mean scores.
type tested struct {
	raw            float64
	shrunk         evaluation.Interval
	off, offShrunk float64
}

// elsewhere shows what predictions are worth on groups of prompts that no label is of.
func (s *study) elsewhere(ctx context.Context, p *reports.Part) error {
	p.Say("A predictor is fitted to some groups of prompts and used on the others: each of up to %d groups is left out once, of more a random half is, %d times. Beside it are as many splits of as many prompts at random. "+
		"Raw are the scores as predicted; shrunk is what a router takes, between them and the task's declared row by how sure it is, where the row is the mean scores of the labels. Intervals of gains are over splits, which share prompts.", few, s.Seeds)
	t := report.Table{ID: "gain-elsewhere", Title: p.Title, Columns: []report.Column{
		report.TextColumn("pair", "Small / large"), report.TextColumn("on", "Used on"), report.NumberColumn("splits", "Splits", "", 0), report.NumberColumn("sure", "Sure, mean", "", 2),
		report.IntervalColumn("raw", "Gain over random, raw", "", 4), report.IntervalColumn("shrunk", "shrunk", "", 4), report.NumberColumn("below", "Splits below random", "", 0), report.IntervalColumn("worst", "Worst split, shrunk", "", 4),
		report.NumberColumn("off", "Mean score off by, raw", "", 3), report.NumberColumn("off_shrunk", "shrunk", "", 3),
	}, Note: "Below random are splits whose interval over prompts is below zero, shrunk. The worst has that interval."}
	for _, x := range s.sets {
		groups := x.groups()
		if len(groups) < 2 {
			continue
		}
		n := s.Seeds
		if len(groups) <= few {
			n = len(groups)
		}
		all, err := reports.Grid(ctx, s.Run, 2, n, func(_ context.Context, random, k int) (split, error) { return x.split(groups, k, random == 1) })
		if err != nil {
			return fmt.Errorf("%s: %w", x.Name, err)
		}
		for at, pair := range x.pairs {
			for random, on := range []string{"other groups", "the same groups"} {
				t.Rows = append(t.Rows, row(x.name(pair), on, at, all[random]))
			}
		}
		p.Head("%s: predictions are %.2f sure of groups that they have seen and %.2f of others.", x.Name, average(all[1], func(d split) float64 { return d.sure }), average(all[0], func(d split) float64 { return d.sure }))
	}
	p.Tables = []report.Table{t}
	return nil
}

// row lays out a pair over splits.
func row(name, on string, at int, splits []split) []report.Cell {
	of := func(what func(tested) float64) []float64 {
		return reports.Values(splits, func(s split) float64 { return what(s.pairs[at]) })
	}
	worst, below := splits[0].pairs[at].shrunk, 0
	for _, s := range splits {
		g := s.pairs[at].shrunk
		if g.Mean < worst.Mean {
			worst = g
		}
		if g.Hi < 0 {
			below++
		}
	}
	return []report.Cell{report.Text(name), report.Text(on), report.Number(float64(len(splits))), report.Number(average(splits, func(s split) float64 { return s.sure })),
		reports.Mean(of(func(t tested) float64 { return t.raw })), reports.Mean(of(func(t tested) float64 { return t.shrunk.Mean })), report.Number(float64(below)), reports.Cell(worst),
		report.Number(evaluation.Bootstrap(of(func(t tested) float64 { return t.off })).Mean), report.Number(evaluation.Bootstrap(of(func(t tested) float64 { return t.offShrunk })).Mean)}
}

// split fits to the prompts of some groups, or to as many at random, and measures on the others.
func (x *set) split(groups []string, k int, random bool) (d split, err error) {
	rng := rand.New(rand.NewPCG(uint64(k), key))
	out := map[string]bool{groups[k%len(groups)]: true}
	if len(groups) > few {
		clear(out)
		for _, g := range rng.Perm(len(groups))[:len(groups)/2] {
			out[groups[g]] = true
		}
	}
	var train, test []int
	for i := range x.Prompts {
		if out[x.Prompts[i].Group] {
			test = append(test, i)
		} else {
			train = append(train, i)
		}
	}
	if random {
		order := rng.Perm(len(x.Prompts))
		train, test = order[:len(train)], order[len(train):]
	}
	m, _, err := quality.Fit(x.of(train), x.Columns, quality.Options{Key: key, Seed: uint64(k)})
	if err != nil {
		return d, err
	}
	y := x.at(test)
	rows, sure := predictAll(m, y.examples)
	d.sure = average(sure, func(s float64) float64 { return s })
	shrunk := shrink(rows, sure, m.Means())
	for _, p := range x.pairs {
		truth := y.truth(p)
		e := estimates([]*ranking{rank(truth, p.expected(shrunk))}, uint64(k))
		t := tested{raw: y.gainOf(p, rows), shrunk: e[0].interval()}
		for _, c := range []int{p.small, p.large} {
			t.off += y.off(c, rows) / 2
			t.offShrunk += y.off(c, shrunk) / 2
		}
		d.pairs = append(d.pairs, t)
	}
	return d, nil
}

// shrink draws predictions toward a row by how sure they are, as a router does.
func shrink(rows [][]float64, sure, toward []float64) [][]float64 {
	out := make([][]float64, len(rows))
	for i, row := range rows {
		out[i] = make([]float64, len(row))
		for c, y := range row {
			out[i][c] = sure[i]*y + (1-sure[i])*toward[c]
		}
	}
	return out
}

// off returns by how much the mean prediction of a column differs from its mean score.
func (x *set) off(column int, rows [][]float64) float64 {
	var sum, n float64
	for i, row := range rows {
		if y := float64(x.examples[i].Scores[column]); y == y {
			sum, n = sum+row[column]-y, n+1
		}
	}
	return math.Abs(sum) / max(1, n)
}
