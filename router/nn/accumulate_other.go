//go:build !amd64

package nn

// accumulate adds x·w to out, where w has len(x) rows, stride apart.
func accumulate(out, x, w []float32, stride int) { accumulateRows(out, x, w, stride) }

// Rectify sets what is negative in v to zero, and leaves NaN.
func Rectify(v []float32) { rectifyEach(v) }

// Unrectify sets g to 0 where y is not positive: from the gradient of y, the result of a
// rectification, to the gradient before it. They are of one length.
func Unrectify(g, y []float32) { unrectifyEach(g, y) }
