package nn

import "slices"

// Carrying makes the output what it is, made small, less the sum of inputs that are not negative: a unit of
// each hidden layer carries each of them. It is for a network of one output that begins to learn, and has no
// fewer units in a hidden layer.
func (m *MLP) Carrying(inputs ...int) *MLP {
	last := len(m.Weights) - 1
	m.times(0.1)
	for unit, from := range inputs {
		for i, w := range m.Weights[:last] {
			n := m.Sizes[i+1]
			for row := range m.Sizes[i] {
				w[row*n+unit] = 0
			}
			w[from*n+unit] = 1
			from = unit
		}
		m.Weights[last][unit] = -1
	}
	return m
}

// Mixed returns the sum of a share of m, and the other share of a network that is nothing but what
// [MLP.Carrying] carries of the inputs.
func (m *MLP) Mixed(share float32, inputs ...int) (*MLP, error) {
	sizes := slices.Clone(m.Sizes)
	for i := 1; i < len(sizes)-1; i++ {
		sizes[i] = len(inputs)
	}
	rest, err := New(sizes...)
	if err != nil {
		return nil, err
	}
	return Mean(m.Clone().times(2*share), rest.Carrying(inputs...).times(2-2*share))
}

// times multiplies the outputs.
func (m *MLP) times(by float32) *MLP {
	for _, x := range [][]float32{m.Weights[len(m.Weights)-1], m.Biases[len(m.Biases)-1]} {
		for i := range x {
			x[i] *= by
		}
	}
	return m
}
