package nn

import (
	"math"
	"slices"
	"testing"
)

// inputs are some points, none negative, as observations are.
func inputs(n int) [][]float32 {
	points := make([][]float32, 20)
	for i := range points {
		points[i] = make([]float32, n)
		for j := range points[i] {
			points[i][j] = float32((i*7+j*3)%11) / 4
		}
	}
	return points
}

func output(m *MLP, x []float32) []float32 {
	out := make([]float32, m.Outputs())
	m.Forward(out, x, make([]float32, m.Scratch()))
	return out
}

func TestMean(t *testing.T) {
	for _, sizes := range [][][]int{
		{{4, 3}, {4, 3}},
		{{4, 5, 3}, {4, 2, 3}, {4, 7, 3}},
		{{4, 5, 6, 3}, {4, 5, 6, 3}},
		{{4, 8, 3}},
	} {
		members := make([]*MLP, len(sizes))
		for i, s := range sizes {
			members[i] = random(t, uint64(i), s...)
		}
		mean, err := Mean(members...)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range inputs(4) {
			got := output(mean, x)
			if banded := output(mean.Banded(), x); !slices.Equal(banded, got) {
				t.Errorf("sizes %v: %v, and %v without the zeros", sizes, got, banded)
			}
			for j := range got {
				var want float64
				for _, m := range members {
					want += float64(output(m, x)[j]) / float64(len(members))
				}
				if math.Abs(float64(got[j])-want) > 1e-4 {
					t.Errorf("sizes %v, output %d: %v, the mean is %v", sizes, j, got[j], want)
				}
			}
		}
	}
}

func TestFavouring(t *testing.T) {
	for _, sizes := range [][]int{{4, 3}, {4, 8, 3}, {4, 8, 5, 3}} {
		plain := random(t, 1, sizes...)
		favouring, err := plain.Favouring(0.5)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range inputs(4) {
			got, want := output(favouring, x), output(plain, x)
			for j := range got {
				if w := want[j] + 0.5*x[j]; math.Abs(float64(got[j]-w)) > 1e-4 {
					t.Errorf("sizes %v, output %d: %v, want %v", sizes, j, got[j], w)
				}
			}
		}
	}
}

// Apart again, the members are as before but for their last biases, of which
// each has the mean: their mean is the same.
func TestSplit(t *testing.T) {
	mean, err := Mean(random(t, 1, 4, 5, 6, 3), random(t, 2, 4, 5, 6, 3))
	if err != nil {
		t.Fatal(err)
	}
	favouring, err := mean.Favouring(0.5)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*MLP{mean, favouring} {
		members, err := m.Split(2, []int{5, 6})
		if err != nil {
			t.Fatal(err)
		}
		again, err := Mean(members...)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range inputs(4) {
			for j, got := range output(again, x) {
				if want := output(mean, x)[j]; math.Abs(float64(got-want)) > 1e-4 {
					t.Errorf("output %d: %v, before %v", j, got, want)
				}
			}
		}
	}
	for _, hidden := range [][]int{{5}, {5, 7}, {4, 6}} {
		if _, err := mean.Split(2, hidden); err == nil {
			t.Errorf("%v was split into hidden layers %v", mean.Sizes, hidden)
		}
	}
}

func TestCombineRefuses(t *testing.T) {
	if _, err := Mean(); err == nil {
		t.Error("the mean of nothing")
	}
	if _, err := Mean(random(t, 1, 4, 3), random(t, 1, 4, 5, 3)); err == nil {
		t.Error("the mean of different depths")
	}
	if _, err := random(t, 1, 2, 3).Favouring(1); err == nil {
		t.Error("two inputs favour three outputs")
	}
}
