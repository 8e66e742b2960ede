package nn

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func random(t testing.TB, seed uint64, sizes ...int) *MLP {
	t.Helper()
	m, err := New(sizes...)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	m.Randomise(rng)
	for _, b := range m.Biases {
		for i := range b {
			b[i] = float32(rng.NormFloat64())
		}
	}
	return m
}

// naive is the forward pass in float64, straight from the definition.
func naive(m *MLP, x []float32) []float64 {
	in := make([]float64, len(x))
	for i, v := range x {
		in[i] = float64(v)
	}
	for layer := range m.Weights {
		out := make([]float64, m.Sizes[layer+1])
		for j := range out {
			out[j] = float64(m.Biases[layer][j])
			for i := range in {
				out[j] += in[i] * float64(m.Weights[layer][i*len(out)+j])
			}
			if layer < len(m.Weights)-1 {
				out[j] = max(0, out[j])
			}
		}
		in = out
	}
	return in
}

func TestForwardAgainstNaive(t *testing.T) {
	for _, sizes := range [][]int{{1, 1}, {5, 3}, {5, 256, 3}, {9, 128, 128, 3}, {5, 256, 256, 3}, {3, 7, 2, 31, 5, 4}} {
		t.Run(fmt.Sprint(sizes), func(t *testing.T) {
			m := random(t, 1, sizes...)
			rng := rand.New(rand.NewPCG(2, 0))
			x, dst := make([]float32, m.Inputs()), make([]float32, m.Outputs())
			for round := range 20 {
				// Longer scratch than needed, and dirty, is as good.
				scratch := slices.Repeat([]float32{float32(math.NaN())}, m.Scratch()+round)
				for i := range x {
					x[i] = float32(rng.NormFloat64())
				}
				x[rng.IntN(len(x))] = 0
				m.Forward(dst, x, scratch)
				for j, want := range naive(m, x) {
					if got := float64(dst[j]); math.Abs(got-want) > 2e-5*(1+math.Abs(want)) {
						t.Fatalf("round %d: output %d is %v, want %v", round, j, got, want)
					}
				}
			}
		})
	}
}

func TestForwardAllocatesNothing(t *testing.T) {
	m := random(t, 1, 9, 128, 128, 3)
	dst, x, scratch := make([]float32, 3), make([]float32, 9), make([]float32, m.Scratch())
	if n := testing.AllocsPerRun(100, func() { m.Forward(dst, x, scratch) }); n != 0 {
		t.Errorf("Forward allocates %v times", n)
	}
}

func TestForwardShowsDamagedWeights(t *testing.T) {
	m := random(t, 1, 4, 8, 8, 2)
	m.Biases[0][3] = float32(math.NaN())
	dst := make([]float32, 2)
	m.Forward(dst, []float32{1, 2, 3, 4}, make([]float32, m.Scratch()))
	if !math.IsNaN(float64(dst[0])) || !math.IsNaN(float64(dst[1])) {
		t.Errorf("a NaN within the network does not reach its output %v", dst)
	}
}

func TestRandomise(t *testing.T) {
	a, b, c := random(t, 1, 5, 64, 3), random(t, 1, 5, 64, 3), random(t, 2, 5, 64, 3)
	if !slices.Equal(a.Weights[0], b.Weights[0]) || slices.Equal(a.Weights[0], c.Weights[0]) {
		t.Error("weights must follow from the seed, and differ between seeds")
	}
	bound := float32(math.Sqrt(6.0 / 5))
	if low, high := slices.Min(a.Weights[0]), slices.Max(a.Weights[0]); low < -bound || high > bound || low > -0.9*bound || high < 0.9*bound {
		t.Errorf("weights in [%v, %v], want them to fill [-%v, %v]", low, high, bound, bound)
	}
}

func TestCloneIsDeep(t *testing.T) {
	m := random(t, 1, 5, 8, 3)
	c := m.Clone()
	c.Weights[1][0]++
	c.Biases[0][0]++
	c.Sizes[1]++
	if m.Weights[1][0] == c.Weights[1][0] || m.Biases[0][0] == c.Biases[0][0] || m.Sizes[1] == c.Sizes[1] {
		t.Error("a change of the clone changes the network")
	}
}

// TestParameters holds the two readings of the paper's network (LBE-12).
func TestParameters(t *testing.T) {
	if n := random(t, 1, 5, 256, 256, 3).Parameters(); n != 68_099 {
		t.Errorf("5-256-256-3 has %d parameters, want 68,099", n)
	}
	if n := random(t, 1, 5, 256, 3).Parameters(); n != 2_307 {
		t.Errorf("5-256-3 has %d parameters, want 2,307", n)
	}
}

func TestNewRefusesBadSizes(t *testing.T) {
	for _, sizes := range [][]int{nil, {3}, {3, 0}, {-1, 3}} {
		if _, err := New(sizes...); err == nil {
			t.Errorf("a network of sizes %v is made", sizes)
		}
	}
}

func marshal(t testing.TB, m *MLP) []byte {
	t.Helper()
	b, err := m.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestMarshalRoundTrip(t *testing.T) {
	for _, sizes := range [][]int{{1, 1}, {9, 128, 128, 3}} {
		m := random(t, 3, sizes...)
		b := marshal(t, m)
		var back MLP
		if err := back.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(back.Sizes, m.Sizes) || !bytes.Equal(marshal(t, &back), b) {
			t.Errorf("network %v does not come back as it was", sizes)
		}
	}
}

func TestUnmarshalFaults(t *testing.T) {
	good := marshal(t, random(t, 1, 2, 3, 1))
	for name, data := range map[string][]byte{
		"empty":           nil,
		"cut in sizes":    good[:9],
		"cut in weights":  good[:len(good)-1],
		"too long":        append(slices.Clone(good), 0),
		"one layer":       {1, 0, 0, 0, 5, 0, 0, 0},
		"too many layers": {0xff, 0xff, 0xff, 0xff},
		"zero size":       {2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0},
		"huge sizes":      {2, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 8},
	} {
		m := random(t, 1, 4, 2)
		before := marshal(t, m)
		if err := m.UnmarshalBinary(data); err == nil {
			t.Errorf("%s: decoded", name)
		}
		if !bytes.Equal(marshal(t, m), before) {
			t.Errorf("%s: the network was changed", name)
		}
	}
}

func FuzzUnmarshalBinary(f *testing.F) {
	f.Add(marshal(f, random(f, 1, 2, 3, 1)))
	f.Add(marshal(f, random(f, 1, 1, 1)))
	f.Add([]byte{2, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 8})
	f.Fuzz(func(t *testing.T, data []byte) {
		var m MLP
		if m.UnmarshalBinary(data) != nil {
			if m.Sizes != nil {
				t.Error("an error left something in the network")
			}
			return
		}
		if !bytes.Equal(marshal(t, &m), data) {
			t.Error("what was decoded does not encode to the same bytes")
		}
		m.Forward(make([]float32, m.Outputs()), make([]float32, m.Inputs()), make([]float32, m.Scratch()))
	})
}

// BenchmarkForward times one forward pass.
//
//	go test ./router/nn -run '^$' -bench Forward
func BenchmarkForward(b *testing.B) {
	for _, sizes := range [][]int{{5, 256, 3}, {9, 128, 128, 3}, {9, 256, 256, 3}} {
		b.Run(fmt.Sprint(sizes), func(b *testing.B) {
			m := random(b, 1, sizes...)
			x := []float32{1, 0, 0, 0, 0.3, 0.8, 0.4, 0.5, 0.7}[:sizes[0]]
			dst, scratch := make([]float32, m.Outputs()), make([]float32, m.Scratch())
			b.ReportAllocs()
			for b.Loop() {
				m.Forward(dst, x, scratch)
			}
		})
	}
}
