package nn

import (
	"math"
	"math/rand/v2"
	"testing"
)

func forward(m *MLP, x []float32) float64 {
	y := make([]float32, m.Outputs())
	m.Forward(y, x, make([]float32, m.Scratch()))
	return float64(y[0])
}

// A network begins near the negative sum of the inputs that it carries; a mixture is the sum of its shares,
// and Split finds the network in it.
func TestCarryingAndMixed(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	m, err := New(5, 8, 6, 1)
	if err != nil {
		t.Fatal(err)
	}
	m.Randomise(rng)
	before := m.Clone()
	carrying := m.Clone().Carrying(1, 3)
	mixed, err := before.Mixed(0.25, 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		x := make([]float32, 5)
		for i := range x {
			x[i] = rng.Float32()
		}
		carried := -float64(x[1] + x[3])
		if got := forward(carrying, x); math.Abs(got-carried) > 0.3 {
			t.Errorf("a network that carries %v gives %v", carried, got)
		}
		if got, want := forward(mixed, x), 0.25*forward(before, x)+0.75*carried; math.Abs(got-want) > 1e-5 {
			t.Errorf("a mixture gives %v, want %v", got, want)
		}
	}
	parts, err := mixed.Split(1, []int{8, 6}, 1)
	if err != nil || parts[0].Weights[0][0] != before.Weights[0][0] {
		t.Errorf("split into %v (%v)", parts, err)
	}
}
