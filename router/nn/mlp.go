// Package nn is a float32 multilayer perceptron, forward pass only: what a
// decision needs of a trained network, and nothing that training needs.
package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/blas/gonum"
)

// MLP is a stack of dense layers with ReLU between them and a linear output.
// Layer i maps Sizes[i] inputs to Sizes[i+1] outputs.
type MLP struct {
	Sizes []int
	// Weights[i] is row-major with shape (Sizes[i], Sizes[i+1]): row = input.
	Weights [][]float32
	// Biases[i] has length Sizes[i+1].
	Biases [][]float32

	bands [][]band // see Banded; nil where weights may change
}

// band is where a row of weights is not zero: all of that is in [from, to).
type band struct{ from, to int32 }

// Banded is m for as long as its weights do not change, quicker where many are
// zero, as of a [Mean]. It shares m's memory.
func (m *MLP) Banded() *MLP {
	b := *m
	b.bands = make([][]band, len(m.Weights))
	for i, w := range m.Weights {
		for n := m.Sizes[i+1]; len(w) > 0; w = w[n:] {
			b.bands[i] = append(b.bands[i], bandOf(w[:n]))
		}
	}
	return &b
}

func bandOf(row []float32) band {
	var b band
	for i, x := range row {
		if x != 0 {
			if b.to == 0 {
				b.from = int32(i)
			}
			b.to = int32(i + 1)
		}
	}
	return b
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

// Scratch is the length of the scratch buffer that Forward needs.
func (m *MLP) Scratch() int { return 2 * slices.Max(m.Sizes) }

// Forward writes the network's output for x into dst. len(x) is Inputs,
// len(dst) is Outputs, len(scratch) at least Scratch. It allocates nothing and
// only reads the network, so goroutines with their own buffers may share it.
func (m *MLP) Forward(dst, x, scratch []float32) {
	half := len(scratch) / 2
	last := len(m.Weights) - 1
	in := x
	for i, w := range m.Weights {
		out := dst
		if i < last {
			out = scratch[(i%2)*half:][:m.Sizes[i+1]]
		}
		if m.bands != nil {
			banded(out, in, w, m.Biases[i], m.bands[i])
		} else {
			dense(out, in, w, m.Biases[i])
		}
		if i < last {
			rectify(out)
		}
		in = out
	}
}

// blas is gonum's own, whatever implementation a program has chosen with
// blas32.Use: a policy decides the same in every build, and pays no cgo call
// for each row.
var blas gonum.Implementation

// dense computes out = x·w + b. After a ReLU about half of x is zero, and a row
// of w whose input is zero is never read.
func dense(out, x, w, b []float32) {
	n := len(out)
	copy(out, b)
	for i, xi := range x {
		if xi != 0 {
			blas.Saxpy(n, xi, w[i*n:i*n+n], 1, out, 1)
		}
	}
}

// banded is dense that leaves out the zeros of w.
func banded(out, x, w, b []float32, bands []band) {
	n := len(out)
	copy(out, b)
	for i, xi := range x {
		if band := bands[i]; xi != 0 && band.from < band.to {
			blas.Saxpy(int(band.to-band.from), xi, w[i*n+int(band.from):i*n+int(band.to)], 1, out[band.from:band.to], 1)
		}
	}
}

func rectify(v []float32) {
	for i, x := range v {
		v[i] = max(x, 0)
	}
}
