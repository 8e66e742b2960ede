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

func TestUnrectify(t *testing.T) {
	nan := float32(math.NaN())
	negativeNaN := math.Float32frombits(0xffc00000) // what Inf − Inf is to some processors
	values := []float32{1, 0, nan, 3, float32(math.Inf(1)), negativeNaN, 1e-40}
	for n := range 40 {
		g, y := make([]float32, n+1), make([]float32, n)
		for i := range y {
			g[i], y[i] = values[i%5]-2, values[i%7]
		}
		g[n] = 7
		dy, want := slices.Clone(g), slices.Clone(g)
		unrectifyEach(want[:n], y)
		Unrectify(g[:n], y)
		if fmt.Sprint(g) != fmt.Sprint(want) { // which has NaN equal NaN
			t.Errorf("the gradient %v before %v is %v, want %v", dy, y, g, want)
		}
		for i := range y {
			if (y[i] > 0) != (fmt.Sprint(g[i]) == fmt.Sprint(dy[i]) && dy[i] != 0) && y[i] == y[i] && dy[i] != 0 {
				t.Errorf("of %v before %v comes %v", dy[i], y[i], g[i])
			}
		}
	}
}

// Rows are added in their order, however many there are.
func TestAddRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for _, rows := range []int{0, 1, 63, 64, 200} {
		w, got, want := make([]float32, 9*rows), make([]float32, 9), make([]float32, 9)
		for i := range w {
			w[i] = float32(rng.NormFloat64())
			want[i%9] += w[i]
		}
		if AddRows(got, w); !slices.Equal(got, want) {
			t.Errorf("%d rows add up to %v, want %v", rows, got, want)
		}
	}
}
