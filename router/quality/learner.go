package quality

import (
	"math"
	"slices"
)

// The settings of stochastic steps (AdaGrad).
const (
	stepSize = 0.1
	decay    = 1.0 // L2 penalty of a weight, in labels that have its word
	tiny     = 1e-6
	formSize = 0.3 // standard deviation that the numbers of the form are scaled to
	// settled is the sum of squared gradients that a stored model's weights begin with, so
	// that a label moves the prediction of its own prompt by a tenth of the error.
	settled = 1.0
)

// Learner changes a model label by label. It is used by one goroutine at a time.
type Learner struct {
	of *Regression // names, hashing, calibration and what it does not change

	seen    []uint64
	share   []float32 // of a weight that a step takes off, by bucket
	idf     []float32
	weights []float32 // by bucket and column, and the sums of their squared gradients
	squares []float32
	forms   []float32 // likewise by number of the form and column
	formSq  []float32
	bias    []float32
	biasSq  []float32
	values  []float32 // scratch
	grad    []float32 // scratch
}

// NewLearner returns a learner that goes on from m, which it does not change.
func NewLearner(m *Regression) *Learner {
	n := len(m.columns)
	l := newLearner(m)
	for i, w := range m.weights {
		l.weights[i] = float32(w) * m.columns[i%n].scale
	}
	for c := range m.columns {
		l.bias[c] = m.columns[c].bias
		for j := range forms {
			l.forms[j*n+c] = m.columns[c].form[j]
		}
	}
	for _, sums := range [][]float32{l.squares, l.formSq, l.biasSq} {
		for i := range sums {
			sums[i] = settled
		}
	}
	return l
}

// newLearner returns a learner of the model's columns, with weights of zero.
func newLearner(m *Regression) *Learner {
	n := len(m.columns)
	l := &Learner{
		of: m, seen: slices.Clone(m.seen), share: make([]float32, Buckets), idf: make([]float32, Buckets),
		weights: make([]float32, Buckets*n), squares: make([]float32, Buckets*n),
		forms: make([]float32, forms*n), formSq: make([]float32, forms*n),
		bias: make([]float32, n), biasSq: make([]float32, n), grad: make([]float32, n),
	}
	for i, x := range m.idf {
		l.idf[i] = float32(x) * idfStep
		having := float64(m.labels+1)*math.Exp(-float64(l.idf[i])) - 1
		l.share[i] = float32(decay / max(1, having))
	}
	return l
}

// Learn takes one step for a label: the score, from 0 to 1, of the column's answer to the
// prompt. Weight multiplies the step; the labels of a fit have 1.
func (l *Learner) Learn(s *Sample, column int, score, weight float64) {
	p := l.predict(s)
	clear(l.grad)
	col := &l.of.columns[column]
	miss := float32(col.calibrated(p[column]) - score)
	l.grad[column] = miss * col.slope
	l.descend(s, column, column+1, float32(weight))
	for _, w := range s.Words {
		l.seen[w>>6] |= 1 << (w & 63)
	}
}

// fit takes one step for all scores of an example, uncalibrated.
func (l *Learner) fit(e *Example) {
	p := l.predict(&e.Sample)
	for c, y := range e.Scores {
		if l.grad[c] = 0; y == y {
			l.grad[c] = float32(logistic(float64(p[c]))) - y
		}
	}
	l.descend(&e.Sample, 0, len(e.Scores), 1)
}

// predict computes the logits of the prompt, and keeps the values of its words.
func (l *Learner) predict(s *Sample) (z [MostColumns]float32) {
	n := len(l.bias)
	l.values = l.values[:0]
	var squares float32
	for i, id := range s.IDs {
		x := frequency(s.Counts[i]) * l.idf[id]
		squares += x * x
		l.values = append(l.values, x)
	}
	length := norm(squares)
	for i, id := range s.IDs {
		l.values[i] *= length
		for c, w := range l.weights[int(id)*n : int(id)*n+n] {
			z[c] += l.values[i] * w
		}
	}
	for c, b := range l.bias {
		z[c] += b
	}
	for j, x := range s.Form {
		x = (x - l.of.center[j]) * l.of.spread[j]
		for c, w := range l.forms[j*n : j*n+n] {
			z[c] += x * w
		}
	}
	return z
}

// descend moves the weights of columns from first until last against the gradients.
func (l *Learner) descend(s *Sample, first, last int, weight float32) {
	n, step := len(l.bias), stepSize*weight
	for i, id := range s.IDs {
		x, share, at := l.values[i], l.share[id], int(id)*n
		for c := first; c < last; c++ {
			move(&l.weights[at+c], &l.squares[at+c], l.grad[c]*x+share*l.weights[at+c], step)
		}
	}
	for j, x := range s.Form {
		x = (x - l.of.center[j]) * l.of.spread[j]
		for c := first; c < last; c++ {
			move(&l.forms[j*n+c], &l.formSq[j*n+c], l.grad[c]*x+1e-4*l.forms[j*n+c], step)
		}
	}
	for c := first; c < last; c++ {
		move(&l.bias[c], &l.biasSq[c], l.grad[c], step)
	}
}

// move takes one step of AdaGrad.
func move(w, squares *float32, gradient, step float32) {
	*squares += gradient * gradient
	*w -= step * gradient / float32(math.Sqrt(float64(*squares)+tiny))
}

// Regression returns the model as it is now.
func (l *Learner) Regression() *Regression {
	m, n := *l.of, len(l.bias)
	m.seen = slices.Clone(l.seen)
	m.columns = slices.Clone(m.columns)
	m.weights = make([]int16, len(l.weights))
	for c := range m.columns {
		var most float32
		for i := c; i < len(l.weights); i += n {
			most = max(most, l.weights[i], -l.weights[i])
		}
		col := &m.columns[c]
		col.scale = most / math.MaxInt16
		for i := c; i < len(l.weights) && most > 0; i += n {
			m.weights[i] = int16(math.RoundToEven(float64(l.weights[i] / col.scale)))
		}
		col.bias = l.bias[c]
		for j := range forms {
			col.form[j] = l.forms[j*n+c]
		}
	}
	return &m
}
