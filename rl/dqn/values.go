package dqn

import (
	"gearshift/rl/fused"
	"gearshift/router/nn"
)

// values writes the outputs of network m for n rows of x into dst. In hidden is room
// for those of the hidden layers.
func values(dst, x []float32, m *nn.MLP, n int, hidden [][]float32) {
	for i, y := range hidden {
		fused.Forward(y, x, m.Weights[i], m.Biases[i], n, true)
		x = y
	}
	last := len(hidden)
	fused.Forward(dst, x, m.Weights[last], m.Biases[last], n, false)
}

// newHidden makes room for the outputs of m's hidden layers for n rows.
func newHidden(m *nn.MLP, n int) (hidden [][]float32) {
	for _, b := range m.Biases[:len(m.Biases)-1] {
		hidden = append(hidden, make([]float32, n*len(b)))
	}
	return hidden
}
