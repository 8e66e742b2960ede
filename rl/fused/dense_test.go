package fused

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A layer is what loops in float64 make of it.
func TestForward(t *testing.T) { holdForward(t) }

func holdForward(t *testing.T) {
	t.Helper()
	const n, in, out = 17, 40, 24
	random := rand.New(rand.NewPCG(1, 1))
	draw := func(size int) []float32 {
		v := make([]float32, size)
		for i := range v {
			v[i] = random.Float32() - 0.5
		}
		return v
	}
	x, w, b, y := draw(n*in), draw(in*out), draw(out), make([]float32, n*out)
	for _, relu := range []bool{false, true} {
		Forward(y, x, w, b, n, relu)
		for r := range n {
			for k := range out {
				want := float64(b[k])
				for i := range in {
					want += float64(x[r*in+i]) * float64(w[i*out+k])
				}
				if relu {
					want = max(0, want)
				}
				if got := float64(y[r*out+k]); math.Abs(got-want) > 1e-5 {
					t.Fatalf("relu %v, row %d, output %d: %v, want %v", relu, r, k, got, want)
				}
			}
		}
	}
}
