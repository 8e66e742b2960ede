package supervised

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// toy is a network of two modalities with few weights.
func toy(t testing.TB, seed uint64) *Network {
	t.Helper()
	n, err := New([]Encoder{
		{Name: "a", Inputs: 3, Each: []int{5, 4}, Groups: []int{0, 1, 0, 1, 1}, Whole: []int{6}},
		{Name: "b", Inputs: 2, Each: []int{4}, Groups: []int{0, 0}},
	}, 3, rand.New(rand.NewPCG(seed, 1)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// example fills in features that say the label, in one of a's positions and in all of b's,
// among noise.
func example(step, row int, features [][]float32) int {
	random := rand.New(rand.NewPCG(uint64(step), uint64(row)))
	label := random.IntN(3)
	for i, x := range features {
		for k := range x {
			x[k] = float32(random.NormFloat64()) / 4
		}
		if i == 0 && x != nil {
			x[3*random.IntN(5)+label] += 2
		} else if x != nil && label > 0 {
			x[label-1]++
			x[label+1]++
		}
	}
	return label
}

// The gradient of every weight against central differences of the loss, which Logits
// gives. They are in float32 and so agree to the third digit.
func TestGradientAgainstFiniteDifferences(t *testing.T) {
	n := toy(t, 1)
	random := rand.New(rand.NewPCG(2, 2))
	for _, p := range n.Parts {
		for i := range p.flat {
			p.flat[i] += float32(random.NormFloat64()) / 5
		}
	}
	c := Config{Steps: 1, Batch: 12, Rate: 1e-12, Clip: 1e9}
	tr, err := newTrainer(n, c)
	if err != nil {
		t.Fatal(err)
	}
	p, err := tr.step(0, example)
	if err != nil {
		t.Fatal(err)
	}
	if want := meanLoss(n, c.Batch); math.Abs(p.Loss-want) > 1e-5 {
		t.Errorf("loss %v, want %v", p.Loss, want)
	}
	var checked, near int
	for i, part := range n.Parts {
		gradient := slices.Clone(tr.shards[0].gradients[i].flat)
		for k := range part.flat {
			const h = 1e-2
			at := part.flat[k]
			part.flat[k] = at + h
			up := meanLoss(n, c.Batch)
			part.flat[k] = at - h
			down := meanLoss(n, c.Batch)
			part.flat[k] = at
			want, got := (up-down)/(2*h), float64(gradient[k])
			checked++
			if math.Abs(got-want) < 1e-3+0.03*math.Abs(want) {
				near++ // else a rectification is within h
			}
		}
	}
	if checked != n.Parameters() || near < checked*95/100 {
		t.Errorf("%d of %d gradients agree", near, checked)
	}
}

// meanLoss is the cross-entropy of the examples of step 0.
func meanLoss(n *Network, batch int) (sum float64) {
	for r := range batch {
		features := make([][]float32, len(n.Parts))
		for i, p := range n.Parts {
			if has(r, i, len(n.Parts)) {
				features[i] = make([]float32, p.Features())
			}
		}
		label := example(0, r, features)
		sum -= math.Log(softmax(n.Logits(features), label)) / float64(batch)
	}
	return sum
}

// trained is a toy that has learnt.
func trained(t *testing.T, seed uint64) (*Network, []Progress) {
	t.Helper()
	n := toy(t, seed)
	var list []Progress
	c := Config{Steps: 300, Batch: 24, Rate: 0.01, Clip: 5}
	if err := Train(t.Context(), n, c, example, func(p Progress) { list = append(list, p) }); err != nil {
		t.Fatal(err)
	}
	return n, list
}

// Each subset of the modalities is learnt, and both together are best.
func TestEverySubsetIsLearnt(t *testing.T) {
	n, list := trained(t, 1)
	if last := list[len(list)-1]; len(list) != 300 || last.Step != 300 || last.Loss > list[0].Loss/2 {
		t.Errorf("%d steps, from %+v to %+v", len(list), list[0], last)
	}
	var accuracy [4]float64
	const examples = 600
	for subset := 1; subset < 4; subset++ {
		for i := range examples {
			features := make([][]float32, 2)
			for k, p := range n.Parts {
				features[k] = make([]float32, p.Features())
			}
			label := example(1000, i, features)
			for k := range features {
				if subset>>k&1 == 0 {
					features[k] = nil
				}
			}
			if argmax(n.Logits(features)) == label {
				accuracy[subset] += 1.0 / examples
			}
		}
	}
	if accuracy[1] < 0.8 || accuracy[2] < 0.8 || accuracy[3] < max(accuracy[1], accuracy[2]) {
		t.Errorf("accuracies %.3f, %.3f and, of both, %.3f", accuracy[1], accuracy[2], accuracy[3])
	}
}

// The same seed gives the same weights to the bit, and another seed others.
func TestTrainingRepeats(t *testing.T) {
	a, _ := trained(t, 1)
	b, _ := trained(t, 1)
	other, _ := trained(t, 2)
	for i := range a.Parts {
		if !slices.Equal(a.Parts[i].flat, b.Parts[i].flat) || slices.Equal(a.Parts[i].flat, other.Parts[i].flat) {
			t.Errorf("part %d does not follow the seed", i)
		}
	}
}

// Logits of several examples at once are those of each, and those of subsets add up.
func TestLogitsAreSums(t *testing.T) {
	n := toy(t, 3)
	var both [][]float32
	for _, p := range n.Parts {
		both = append(both, make([]float32, 2*p.Features()))
	}
	for r := range 2 {
		example(0, r, [][]float32{both[0][r*15 : (r+1)*15], both[1][r*4 : (r+1)*4]})
	}
	all := n.Logits(both)
	a, b := n.Logits([][]float32{both[0][15:], nil}), n.Logits([][]float32{nil, both[1][4:]})
	for k := range 3 {
		if got, want := all[3+k], a[k]+b[k]; math.Abs(float64(got-want)) > 1e-5 {
			t.Errorf("logit %d is %v, want %v", k, got, want)
		}
	}
}

func TestTrainRefuses(t *testing.T) {
	for _, c := range []Config{{Steps: 1, Batch: 5, Rate: 1, Clip: 1}, {Batch: 6, Rate: 1, Clip: 1}, {Steps: 1, Batch: 6, Clip: 1}} {
		if err := Train(t.Context(), toy(t, 1), c, example, func(Progress) {}); err == nil || !strings.Contains(err.Error(), "want 6 examples") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Train(ctx, toy(t, 1), Config{Steps: 1, Batch: 6, Rate: 1, Clip: 1}, example, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled run: %v", err)
	}
	bad := func(_, _ int, features [][]float32) int {
		for _, x := range features {
			if x != nil {
				x[0] = float32(math.NaN())
			}
		}
		return 0
	}
	if err := Train(t.Context(), toy(t, 1), Config{Steps: 1, Batch: 6, Rate: 1, Clip: 1}, bad, nil); !errors.Is(err, ErrDiverged) {
		t.Errorf("features that are no numbers: %v", err)
	}
	for _, e := range []Encoder{{Inputs: 1, Each: []int{1}}, {Inputs: 1, Groups: []int{0}}, {Inputs: 1, Each: []int{1}, Groups: []int{1}}} {
		if _, err := New([]Encoder{e}, 2, rand.New(rand.NewPCG(1, 1))); err == nil {
			t.Errorf("%+v is accepted", e)
		}
	}
}
