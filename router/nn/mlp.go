// Package nn is a float32 multilayer perceptron, forward pass only: what a
// decision needs of a trained network, and nothing that training needs.
package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// MLP is a stack of dense layers with ReLU between them and a linear output.
// Layer i maps Sizes[i] inputs to Sizes[i+1] outputs.
type MLP struct {
	Sizes []int
	// Weights[i] is row-major with shape (Sizes[i], Sizes[i+1]): row = input.
	Weights [][]float32
	// Biases[i] has length Sizes[i+1].
	Biases [][]float32

	blocks [][]block // see Banded; nil where weights may change
}

// New makes a network of zero weights. It needs at least an input and an
// output size, all positive.
func New(sizes ...int) (*MLP, error) {
	if len(sizes) < 2 || slices.Min(sizes) < 1 {
		return nil, fmt.Errorf("cannot make a network of sizes %v: at least two positive sizes are needed", sizes)
	}
	m := &MLP{Sizes: slices.Clone(sizes)}
	for i, in := range sizes[:len(sizes)-1] {
		m.Weights = append(m.Weights, make([]float32, in*sizes[i+1]))
		m.Biases = append(m.Biases, make([]float32, sizes[i+1]))
	}
	return m, nil
}

// Randomise draws every weight from U(−√(6/in), √(6/in)) (He et al. 2015, for
// ReLU) and sets the biases to zero.
func (m *MLP) Randomise(rng *rand.Rand) {
	for i, w := range m.Weights {
		bound := math.Sqrt(6 / float64(m.Sizes[i]))
		for j := range w {
			w[j] = float32((2*rng.Float64() - 1) * bound)
		}
		clear(m.Biases[i])
	}
}

// Inputs is the length of an input vector.
func (m *MLP) Inputs() int { return m.Sizes[0] }

// Outputs is the length of an output vector.
func (m *MLP) Outputs() int { return m.Sizes[len(m.Sizes)-1] }

// Parameters is the number of weights and biases.
func (m *MLP) Parameters() int {
	var n int
	for i := range m.Weights {
		n += len(m.Weights[i]) + len(m.Biases[i])
	}
	return n
}

// Clone is a deep copy.
func (m *MLP) Clone() *MLP {
	c := &MLP{Sizes: slices.Clone(m.Sizes)}
	for i := range m.Weights {
		c.Weights = append(c.Weights, slices.Clone(m.Weights[i]))
		c.Biases = append(c.Biases, slices.Clone(m.Biases[i]))
	}
	return c
}
