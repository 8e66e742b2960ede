//go:build !amd64

package nn

func accumulate(out, x, w []float32, stride int) { accumulateRows(out, x, w, stride) }

func rectify(v []float32) { rectifyEach(v) }
