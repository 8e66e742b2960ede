package nn

import "gonum.org/v1/gonum/blas/gonum"

// blas is gonum's own, whatever implementation a program has chosen with
// blas32.Use: a cgo call for each row would cost more than it gains.
var blas gonum.Implementation

// accumulateRows is accumulate, row by row. After a ReLU about half of x is zero, and a row whose input is zero is never read.
func accumulateRows(out, x, w []float32, stride int) {
	n := len(out)
	for i, xi := range x {
		if xi != 0 {
			blas.Saxpy(n, xi, w[i*stride:i*stride+n], 1, out, 1)
		}
	}
}

// rectifyEach is Rectify, one by one.
func rectifyEach(v []float32) {
	for i, x := range v {
		v[i] = max(x, 0)
	}
}
