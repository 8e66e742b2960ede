package quality

import "testing"

func TestKnotsNowhereFall(t *testing.T) {
	for _, test := range []struct{ from, to []float32 }{
		{[]float32{0.1, 0.5, 0.9}, []float32{0.1, 0.5, 0.9}},
		{[]float32{0.1, 0.6, 0.4, 0.9}, []float32{0.1, 0.5, 0.5, 0.9}},
		{[]float32{0.9, 0.6, 0.3}, []float32{0.6, 0.6, 0.6}},
		{[]float32{0.4, 0.2, 0.6, 0.4, 0.5}, []float32{0.3, 0.3, 0.5, 0.5, 0.5}},
	} {
		bins := make([]bin, len(test.from))
		for i, x := range test.from {
			bins[i].is = x
		}
		monotone(bins)
		for i, b := range bins {
			if d := b.is - test.to[i]; d > 1e-6 || d < -1e-6 {
				t.Errorf("%v: knot %d is %v; want %v", test.from, i, b.is, test.to[i])
			}
		}
	}
}
