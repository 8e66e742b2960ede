package nn

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
