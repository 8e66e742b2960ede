package rl

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Three steps of Adam on one weight, by hand from the paper's algorithm 1 with
// rate 0.1: gradients 1, −0.5, 0.25.
func TestAdamAgainstReference(t *testing.T) {
	a := NewAdam(1, 0.1)
	w := []float32{1}
	for i, step := range []struct{ gradient, want float64 }{
		// m = 0.1, v = 0.001: m̂ = 1, v̂ = 1.
		{1, 0.9},
		// m = 0.04, v = 0.001249: m̂ = 0.2105263, v̂ = 0.6248124.
		{-0.5, 0.9 - 0.1*0.21052632/0.79045076},
		// m = 0.061, v = 0.001310251: m̂ = 0.2250923, v̂ = 0.4371870.
		{0.25, 0.9 - 0.1*0.21052632/0.79045076 - 0.1*0.22509225/0.66120119},
	} {
		a.Step(w, []float32{float32(step.gradient)}, 1)
		if math.Abs(float64(w[0])-step.want) > 1e-6 {
			t.Fatalf("step %d: weight %v, not %v", i, w[0], step.want)
		}
	}
	// A rate set later holds; the scale multiplies the gradient.
	b, v := NewAdam(1, 0.1), []float32{0}
	b.Rate = 0.01
	b.Step(v, []float32{8}, 0.5)
	if math.Abs(float64(v[0])+0.01) > 1e-8 || b.First[0] != Beta1*0+float32(1-Beta1)*4 {
		t.Errorf("weight %v, first moment %v", v[0], b.First[0])
	}
}

// The machine's own way of descending is the plain one, to the bit.
func TestDescentIsTheSameToTheBit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	draw := func(n int, low float64) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(max(low, rng.NormFloat64()))
		}
		return v
	}
	c := &constants{scale: 0.7, beta1: Beta1, rest1: 1 - Beta1, beta2: beta2, rest2: 1 - beta2, rate: 1e-3, tiny: 1e-9}
	for n := range 40 {
		got := [][]float32{draw(n, -9), draw(n, -9), draw(n, -9), draw(n, 0)}
		for i := 0; i < n; i += 3 {
			got[1][i], got[3][i] = 0, 0 // never moved so far
		}
		var want [][]float32
		for _, v := range got {
			want = append(want, slices.Clone(v))
		}
		for range 3 {
			descend(got[0], got[1], got[2], got[3], c)
			descendEach(want[0], want[1], want[2], want[3], c)
		}
		for k := range got {
			if !slices.Equal(got[k], want[k]) {
				t.Fatalf("%d weights: %v, want %v", n, got, want)
			}
		}
	}
}
