package dqn

import (
	"gonum.org/v1/gonum/blas"

	"gearshift/router/nn"
)

// The arithmetic of a dense layer over a batch of n rows, all row-major. Each
// function writes every element of its first argument.

// forward computes y = x·w + b, then ReLU if asked.
func forward(y, x, w, b []float32, n int, relu bool) {
	out := len(b)
	in := len(w) / out
	for r := range n {
		copy(y[r*out:(r+1)*out], b)
	}
	library.Sgemm(blas.NoTrans, blas.NoTrans, n, out, in, 1, x, in, w, out, 1, y, out)
	if relu {
		nn.Rectify(y)
	}
}

// inputGradient computes dx = g·wᵀ where x is positive, else 0: the gradient before
// the rectification whose result x is. Columns of g: out.
func inputGradient(dx, g, w, x []float32, n, out int) {
	in := len(w) / out
	library.Sgemm(blas.NoTrans, blas.Trans, n, in, out, 1, g, out, w, out, 0, dx, in)
	nn.Unrectify(dx, x)
}

// weightGradient computes dw = xᵀ·g, where g has out columns.
func weightGradient(dw, x, g []float32, n, out int) {
	in := len(dw) / out
	library.Sgemm(blas.Trans, blas.NoTrans, in, out, n, 1, x, in, g, out, 0, dw, out)
}

// biasGradient sums the rows of g.
func biasGradient(db, g []float32) {
	clear(db)
	nn.AddRows(db, g)
}

// values writes the outputs of network m for n rows of x into dst. In hidden is room
// for those of the hidden layers.
func values(dst, x []float32, m *nn.MLP, n int, hidden [][]float32) {
	for i, y := range hidden {
		forward(y, x, m.Weights[i], m.Biases[i], n, true)
		x = y
	}
	last := len(hidden)
	forward(dst, x, m.Weights[last], m.Biases[last], n, false)
}

// newHidden makes room for the outputs of m's hidden layers for n rows.
func newHidden(m *nn.MLP, n int) (hidden [][]float32) {
	for _, b := range m.Biases[:len(m.Biases)-1] {
		hidden = append(hidden, make([]float32, n*len(b)))
	}
	return hidden
}
