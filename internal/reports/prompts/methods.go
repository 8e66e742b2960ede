package prompts

import (
	"context"
	"hash/fnv"
	"math/rand/v2"

	"gearshift/internal/reports"
	"gearshift/internal/reports/prompts/peers"
	"gearshift/router/quality"
)

// method predicts scores of prompts, fitted to others.
type method struct {
	name string
	// fit returns what predicts the scores of the prompt at a place of the set. One goroutine at a
	// time uses it.
	fit func(x *set, train []int, seed uint64) (predict func(i int, dst []float64), err error)
}

// near is the number of labelled prompts whose mean is a prediction by neighbours, and a fifth of them
// all if that is fewer.
const near = 40

// The methods that are compared.
var (
	predicted  = method{"predicted", fitted}
	neighbours = method{"nearest prompts", func(x *set, train []int, _ uint64) (func(int, []float64), error) {
		n := peers.NewNeighbours(x.of(train), len(x.Columns), min(near, max(1, len(train)/5)))
		return func(i int, dst []float64) { n.Predict(&x.examples[i].Sample, dst) }, nil
	}}
	factors = method{"matrix factorisation", func(x *set, train []int, seed uint64) (func(int, []float64), error) {
		f := peers.NewFactors(x.of(train), len(x.Columns), seed)
		return func(i int, dst []float64) { f.Predict(&x.examples[i].Sample, dst) }, nil
	}}
	byGroup = method{"by group alone", groupMeans}
)

// fitted predicts as a router does, without the shrinkage toward a declared row.
func fitted(x *set, train []int, seed uint64) (func(int, []float64), error) {
	m, _, err := quality.Fit(x.of(train), x.Columns, quality.Options{Key: key, Seed: seed})
	if err != nil {
		return nil, err
	}
	return func(i int, dst []float64) { m.Predict(&x.examples[i].Sample, dst) }, nil
}

// groupMeans predicts the mean scores of the prompt's group.
func groupMeans(x *set, train []int, _ uint64) (func(int, []float64), error) {
	by := map[string][]int{}
	for _, i := range train {
		by[x.Prompts[i].Group] = append(by[x.Prompts[i].Group], i)
	}
	rows := map[string][]float64{}
	for group, places := range by {
		rows[group] = x.at(places).Means()
	}
	all := x.at(train).Means()
	return func(i int, dst []float64) {
		row, ok := rows[x.Prompts[i].Group]
		if !ok {
			row = all
		}
		copy(dst, row)
	}, nil
}

// folds is the number of parts of the prompts; each part is predicted from the others.
const folds = 5

// fold returns the fold of each prompt. Equal prompts are in the same.
func (x *set) fold() []int {
	of := make([]int, len(x.Prompts))
	for i := range of {
		h := fnv.New64a()
		_, _ = h.Write([]byte(x.Prompts[i].Text))
		of[i] = rand.New(rand.NewPCG(h.Sum64(), key)).IntN(folds)
	}
	return of
}

// held returns what each method predicts of each prompt of the set from the other folds, by method,
// prompt and column.
func (s *study) held(ctx context.Context, x *set, methods []method) ([][][]float64, error) {
	of := x.fold()
	all := make([][][]float64, len(methods))
	for k := range all {
		all[k] = make([][]float64, len(of))
	}
	_, err := reports.Grid(ctx, s.Run, len(methods), folds, func(_ context.Context, k, fold int) (struct{}, error) {
		var train []int
		for i, f := range of {
			if f != fold {
				train = append(train, i)
			}
		}
		predict, err := methods[k].fit(x, train, 1)
		if err != nil {
			return struct{}{}, err
		}
		for i, f := range of {
			if f == fold {
				all[k][i] = make([]float64, len(x.Columns))
				predict(i, all[k][i])
			}
		}
		return struct{}{}, nil
	})
	return all, err
}

// mean returns the mean of several methods' predictions.
func mean(held ...[][]float64) [][]float64 {
	out := make([][]float64, len(held[0]))
	for i := range out {
		out[i] = make([]float64, len(held[0][i]))
		for _, h := range held {
			for c, y := range h[i] {
				out[i][c] += y / float64(len(held))
			}
		}
	}
	return out
}
