package nn

import "golang.org/x/sys/cpu"

// accumulate adds x·w to out, where w has len(x) rows, stride apart.
func accumulate(out, x, w []float32, stride int) {
	if !cpu.X86.HasAVX {
		accumulateRows(out, x, w, stride)
		return
	}
	if len(out) == 0 || len(x) == 0 {
		return
	}
	_ = w[(len(x)-1)*stride+len(out)-1] // the last that is read
	accumulateAVX(&out[0], &x[0], &w[0], len(out), len(x), stride)
}

// Rectify sets what is negative in v to zero, and leaves NaN.
func Rectify(v []float32) {
	if !cpu.X86.HasAVX {
		rectifyEach(v)
		return
	}
	whole := len(v) &^ 7
	if whole > 0 {
		rectifyAVX(&v[0], whole)
	}
	rectifyEach(v[whole:])
}

// Unrectify sets g to 0 where y is not positive: from the gradient of y, the result of a
// rectification, to the gradient before it. They are of one length.
func Unrectify(g, y []float32) {
	whole := 0
	if g = g[:len(y)]; cpu.X86.HasAVX2 {
		whole = len(y) &^ 7
	}
	if whole > 0 {
		unrectifyAVX(&g[0], &y[0], whole)
	}
	unrectifyEach(g[whole:], y[whole:])
}

// accumulateAVX is accumulate, to the bit. None of the numbers may be 0.
//
//go:noescape
func accumulateAVX(out, x, w *float32, columns, rows, stride int)

// rectifyAVX is Rectify of n numbers, a multiple of 8.
//
//go:noescape
func rectifyAVX(v *float32, n int)

// unrectifyAVX is Unrectify of n numbers, a multiple of 8.
//
//go:noescape
func unrectifyAVX(grad, y *float32, n int)
