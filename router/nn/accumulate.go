package nn

import "math"

// accumulateRows is accumulate, row by row. After a ReLU about half of x is zero, and a row whose input is zero is never read.
func accumulateRows(out, x, w []float32, stride int) {
	for i, xi := range x {
		if xi == 0 {
			continue
		}
		for k, wk := range w[i*stride:][:len(out)] {
			out[k] += float32(xi * wk) // the conversion keeps a compiler from rounding once for both
		}
	}
}

// rectifyEach is Rectify, one by one.
func rectifyEach(v []float32) {
	for i, x := range v {
		v[i] = max(x, 0)
	}
}

// unrectifyEach is Unrectify, one by one. The sign of an activation is as good as
// random, so that a branch on it would be mispredicted half of the time: it masks
// bits instead.
func unrectifyEach(g, y []float32) {
	g = g[:len(y)]
	for i, v := range y {
		positive := uint32(-int32(math.Float32bits(v)) >> 31)
		g[i] = math.Float32frombits(math.Float32bits(g[i]) & positive)
	}
}

// AddRows adds the rows of w to sums, in their order; there are len(w)/len(sums).
func AddRows(sums, w []float32) {
	var ones [64]float32
	for i := range ones {
		ones[i] = 1
	}
	for len(w) > 0 {
		n := min(len(ones), len(w)/len(sums))
		accumulate(sums, ones[:n], w, len(sums))
		w = w[n*len(sums):]
	}
}
