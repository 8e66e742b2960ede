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

// In a stack the outputs of one member come after those of the other.
func TestStack(t *testing.T) {
	members := []*MLP{random(t, 1, 4, 5, 6, 3), random(t, 2, 4, 5, 6, 3)}
	stack, err := Stack(members...)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range inputs(4) {
		got := output(stack, x)
		if banded := output(stack.Banded(), x); !slices.Equal(banded, got) {
			t.Errorf("%v, and %v without the zeros", got, banded)
		}
		want := slices.Concat(output(members[0], x), output(members[1], x))
		for j := range want {
			if math.Abs(float64(got[j]-want[j])) > 1e-4 {
				t.Errorf("output %d: %v, want %v", j, got[j], want[j])
			}
		}
	}
}

// Of a stack, each member favours the same.
func TestFavouring(t *testing.T) {
	for _, sizes := range [][]int{{4, 3}, {4, 8, 3}, {4, 8, 5, 3}, {4, 8, 5, 6}} {
		plain := random(t, 1, sizes...)
		favouring, err := plain.Favouring(0.5, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range inputs(4) {
			got, want := output(favouring, x), output(plain, x)
			for j := range got {
				if w := want[j] + 0.5*x[j%3]; math.Abs(float64(got[j]-w)) > 1e-4 {
					t.Errorf("sizes %v, output %d: %v, want %v", sizes, j, got[j], w)
				}
			}
		}
	}
}

// Apart again, the members are as before, but for the last biases of those of a mean, of
// which each has the mean: theirs is the same.
func TestSplit(t *testing.T) {
	for name, join := range map[string]func(...*MLP) (*MLP, error){"mean": Mean, "stack": Stack} {
		joined, err := join(random(t, 1, 4, 5, 6, 3), random(t, 2, 4, 5, 6, 3))
		if err != nil {
			t.Fatal(err)
		}
		favouring, err := joined.Favouring(0.5, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []*MLP{joined, favouring} {
			members, err := m.Split(2, []int{5, 6}, 3)
			if err != nil {
				t.Fatal(err)
			}
			again, err := join(members...)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range inputs(4) {
				want := output(joined, x)
				for j, got := range output(again, x) {
					if math.Abs(float64(got-want[j])) > 1e-4 {
						t.Errorf("%s, output %d: %v, before %v", name, j, got, want[j])
					}
				}
			}
		}
		for _, hidden := range [][]int{{5}, {5, 7}, {4, 6}} {
			if _, err := joined.Split(2, hidden, 3); err == nil {
				t.Errorf("%s: %v was split into hidden layers %v", name, joined.Sizes, hidden)
			}
		}
		if _, err := joined.Split(2, []int{5, 6}, 4); err == nil {
			t.Errorf("%s: %v was split for four actions", name, joined.Sizes)
		}
		// One network of the same layers is not several.
		if _, err := random(t, 1, joined.Sizes...).Split(2, []int{5, 6}, 3); err == nil {
			t.Errorf("%s: one network of layers %v was split", name, joined.Sizes)
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
	if _, err := random(t, 1, 2, 3).Favouring(1, 3); err == nil {
		t.Error("two inputs favour three outputs")
	}
	if _, err := random(t, 1, 4, 3).Favouring(1, 2); err == nil {
		t.Error("three outputs are those of networks for two actions")
	}
}
