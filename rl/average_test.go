package rl

import (
	"math"
	"testing"

	"gearshift/router/nn"
)

// The average is the plain one of the first steps and the exponential one from
// 1/(1−decay) steps on; it never depends on the weights before the first.
func TestAverageOfWeights(t *testing.T) {
	m, err := nn.New(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	average := m.Clone()
	average.Weights[0][0], average.Biases[0][0] = 1e6, -1e6
	const decay = 0.75
	var want float64
	for step := 1; step <= 12; step++ {
		x := float64(step * step)
		m.Weights[0][0], m.Biases[0][0] = float32(x), float32(-x)
		averageInto(average, m, decay, step)
		if step <= 4 {
			want = 0 // the mean of 1, 4, 9, …
			for i := 1; i <= step; i++ {
				want += float64(i*i) / float64(step)
			}
		} else {
			want = decay*want + (1-decay)*x
		}
		if w, b := float64(average.Weights[0][0]), float64(average.Biases[0][0]); math.Abs(w-want) > 1e-4 || w != -b {
			t.Errorf("step %d: average %v and %v, want %v", step, w, b, want)
		}
	}
}
