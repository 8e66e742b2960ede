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

// inputGradient computes dx = g·wᵀ, where g has out columns.
func inputGradient(dx, g, w []float32, n, out int) {
	in := len(w) / out
	library.Sgemm(blas.NoTrans, blas.Trans, n, in, out, 1, g, out, w, out, 0, dx, in)
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

// batchForward runs whole networks over batches of n rows, with no gradient.
type batchForward struct {
	n      int
	hidden [2][]float32
}

func newBatchForward(n, width int) *batchForward {
	return &batchForward{n: n, hidden: [2][]float32{make([]float32, n*width), make([]float32, n*width)}}
}

// run writes the outputs of the layers for the rows of x into dst.
func (f *batchForward) run(dst, x []float32, weights, biases [][]float32) {
	last := len(weights) - 1
	for i := range weights {
		y := dst
		if i < last {
			y = f.hidden[i%2][:f.n*len(biases[i])]
		}
		forward(y, x, weights[i], biases[i], f.n, i < last)
		x = y
	}
}
