//go:build !amd64

package nn

// accumulate adds x·w to out, where w has len(x) rows, stride apart.
func accumulate(out, x, w []float32, stride int) { accumulateRows(out, x, w, stride) }

// Rectify sets what is negative in v to zero, and leaves NaN.
func Rectify(v []float32) { rectifyEach(v) }

// Unrectify writes dy where y is positive, else 0, into g: the gradient before the
// rectification whose result is y. They are of one length.
func Unrectify(g, dy, y []float32) { unrectifyEach(g, dy, y) }
