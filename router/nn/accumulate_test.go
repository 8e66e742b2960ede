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
