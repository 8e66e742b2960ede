package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestAccumulateIsTheSameToTheBit holds the machine's own way against the plain one
// for every width of a strip and of what is left, with other weights around.
func TestAccumulateIsTheSameToTheBit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	draw := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	for _, rows := range []int{0, 1, 2, 67} {
		for columns := range 150 {
			stride := columns + rng.IntN(3)
			x, out := draw(rows), draw(columns+1)
			if rows > 1 {
				x[1] = 0
			}
			w := draw(max(0, (rows-1)*stride+columns)) // not a number more
			want := slices.Clone(out)
			accumulateRows(want[:columns], x, w, stride)
			accumulate(out[:columns], x, w, stride)
			if !slices.Equal(out, want) {
				t.Fatalf("%d rows of %d columns, %d apart: %v, want %v", rows, columns, stride, out, want)
			}
		}
	}
}

// A product is rounded before it is added, also where the machine could do both at once:
// (1 + 2⁻¹²)² is 1 + 2⁻¹¹ to a float32, and a little more in truth.
func TestProductsAreRounded(t *testing.T) {
	near := float32(1) + 1./4096
	for name, accumulate := range map[string]func(out, x, w []float32, stride int){"rows": accumulateRows, "machine": accumulate} {
		out := []float32{-(1 + 1./2048)}
		if accumulate(out, []float32{near}, []float32{near}, 1); out[0] != 0 {
			t.Errorf("%s: %v is left, want 0", name, out[0])
		}
	}
}

func TestRectify(t *testing.T) {
	nan := float32(math.NaN())
	for n := range 20 {
		v := make([]float32, n+1)
		for i := range v {
			v[i] = float32(i%3) - 1
		}
		v[n] = -5
		v[n/2] = nan
		want := slices.Clone(v)
		rectifyEach(want[:n])
		Rectify(v[:n])
		if fmt.Sprint(v) != fmt.Sprint(want) { // which has NaN equal NaN
			t.Errorf("rectified to %v, want %v", v, want)
		}
	}
}
