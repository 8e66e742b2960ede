package dqn

import (
	"math"
	"math/rand/v2"
	"testing"

	"gearshift/rl"
)

// The graph's and the batched forward pass agree with the one that serves.
func TestForwardParity(t *testing.T) { checkForwardParity(t) }

func checkForwardParity(t *testing.T) {
	t.Helper()
	for _, dueling := range []bool{false, true} {
		cfg := testConfig(17, 24, 40)
		cfg.Dueling = dueling
		holdForwardParity(t, cfg)
	}
}

func holdForwardParity(t *testing.T, cfg rl.Config) {
	t.Helper()
	l := newTestLearner(t, cfg, 9, 3, 5)
	rng := rand.New(rand.NewPCG(3, 3))
	for i := range l.online.flat {
		l.online.flat[i] = rng.Float32() - 0.5 // biases too
	}
	l.online.fold()
	b := randomBatch(rng, cfg.Batch, 9, 3)
	got := make([]float32, cfg.Batch*3)
	values(got, b.Observations, l.Act(), cfg.Batch, newHidden(l.Act(), cfg.Batch))

	q, scratch := make([]float32, 3), make([]float32, l.Act().Scratch())
	for i := range cfg.Batch {
		l.Act().Forward(q, b.Observations[9*i:9*i+9], scratch)
		for k, want := range q {
			if math.Abs(float64(got[3*i+k]-want)) > 1e-5 {
				t.Fatalf("row %d: %v, not %v", i, got[3*i:3*i+3], q)
			}
		}
	}
	clear(b.Discounts) // the targets are the rewards
	stats, err := l.Learn(b)
	if err != nil {
		t.Fatal(err)
	}
	if want := referenceLoss(l, b, got); math.Abs(stats.Loss-want) > 1e-5 {
		t.Errorf("the graph's loss is %v, want %v", stats.Loss, want)
	}
}

// referenceLoss is the mean Huber loss of rows of q against the batch's rewards.
func referenceLoss(l *Learner, b *rl.Batch, q []float32) float64 {
	delta := float64(l.shards[0].graph.loss.delta)
	var sum float64
	for i, a := range b.Actions {
		e := math.Abs(float64(q[i*l.Act().Outputs()+int(a)] - b.Rewards[i]))
		if e <= delta {
			sum += e * e / 2
		} else {
			sum += delta*e - delta*delta/2
		}
	}
	return sum / float64(b.Len())
}

// The gradient of every weight against central differences of a loss that is
// computed in float64, away from the kinks of ReLU and Huber.
func TestGradientAgainstFiniteDifferences(t *testing.T) {
	for _, batch := range []int{11, 2*shardRows + 1} {
		for _, dueling := range []bool{false, true} {
			cfg := testConfig(batch, 7, 6)
			cfg.Huber, cfg.Dueling = 0.7, dueling
			for _, weighted := range []bool{false, true} {
				holdGradient(t, cfg, weighted)
			}
		}
	}
}

func holdGradient(t *testing.T, cfg rl.Config, weighted bool) {
	t.Helper()
	l := newTestLearner(t, cfg, 5, 3, 2)
	rng := rand.New(rand.NewPCG(4, 4))
	for i := range l.online.flat {
		l.online.flat[i] += 0.2 * (rng.Float32() - 0.5)
	}
	b := randomBatch(rng, cfg.Batch, 5, 3)
	clear(b.Discounts) // the targets are the rewards
	if weighted {
		for range cfg.Batch {
			b.Weights = append(b.Weights, 3*rng.Float32())
		}
	}
	weights := make([]float64, len(l.online.flat))
	for i, w := range l.online.flat {
		weights[i] = float64(w)
	}
	stats, err := l.Learn(b)
	if err != nil {
		t.Fatal(err)
	}
	if want := doubleLoss(l, b, weights); math.Abs(stats.Loss-want) > 1e-5 {
		t.Errorf("loss %v, not %v", stats.Loss, want)
	}
	const h = 1e-6
	var checked int
	for i := range weights {
		at := weights[i]
		weights[i] = at + h
		up := doubleLoss(l, b, weights)
		weights[i] = at - h
		down := doubleLoss(l, b, weights)
		weights[i] = at
		want, got := (up-down)/(2*h), float64(l.gradients()[i])
		if math.Abs(got-want) > 1e-5 {
			t.Errorf("parameter %d: gradient %v, not %v", i, got, want)
		}
		if want != 0 {
			checked++
		}
	}
	if checked < len(weights)/2 {
		t.Errorf("only %d of %d gradients are not zero", checked, len(weights))
	}
}

// doubleLoss is the weighted loss against the batch's rewards, in float64
// throughout.
func doubleLoss(l *Learner, b *rl.Batch, weights []float64) float64 {
	sizes := l.online.Sizes
	var sum float64
	for r, a := range b.Actions {
		x := make([]float64, sizes[0])
		for i := range x {
			x[i] = float64(b.Observations[r*sizes[0]+i])
		}
		rest := weights
		for i, in := range sizes[:len(sizes)-1] {
			out := sizes[i+1]
			y := append([]float64(nil), rest[in*out:(in+1)*out]...)
			for j, v := range x {
				for k := range y {
					y[k] += v * rest[j*out+k]
				}
			}
			if i < len(sizes)-2 {
				for k := range y {
					y[k] = max(y[k], 0)
				}
			}
			rest, x = rest[(in+1)*out:], y
		}
		if l.online.dueling {
			var mean float64
			for _, advantage := range x[1:] {
				mean += advantage / float64(len(x)-1)
			}
			for k := range x[1:] {
				x[1+k] += x[0] - mean
			}
			x = x[1:]
		}
		e, delta := math.Abs(x[a]-float64(b.Rewards[r])), float64(l.shards[0].graph.loss.delta)
		loss := delta * (e - delta/2)
		if e <= delta {
			loss = e * e / 2
		}
		if b.Weights != nil {
			loss *= float64(b.Weights[r])
		}
		sum += loss
	}
	return sum / float64(len(b.Actions))
}

// A transition of weight 2 counts as if it were in the batch twice, and one of
// weight 0 as if it were not; TD errors are those of the transitions themselves.
func TestWeightsCountTransitions(t *testing.T) {
	cfg := testConfig(4, 7)
	weighted, twice := newTestLearner(t, cfg, 5, 3, 1), newTestLearner(t, cfg, 5, 3, 1)
	a, b := randomBatch(rand.New(rand.NewPCG(1, 1)), 4, 5, 3), rl.NewBatch(4, 5)
	a.Weights = []float32{2, 1, 1, 0}
	for i, k := range []int{0, 0, 1, 2} {
		copy(b.Observations[5*i:5*i+5], a.Observations[5*k:5*k+5])
		copy(b.Next[5*i:5*i+5], a.Next[5*k:5*k+5])
		b.Actions[i], b.Rewards[i], b.Discounts[i] = a.Actions[k], a.Rewards[k], a.Discounts[k]
	}
	want, err := twice.Learn(b)
	if err != nil {
		t.Fatal(err)
	}
	got, err := weighted.Learn(a)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(got.Loss-want.Loss) > 1e-6 || math.Abs(got.GradientNorm-want.GradientNorm) > 1e-6 {
		t.Errorf("loss %v, gradient's norm %v; want %v, %v", got.Loss, got.GradientNorm, want.Loss, want.GradientNorm)
	}
	for i, g := range twice.gradients() {
		if math.Abs(float64(weighted.gradients()[i]-g)) > 1e-6 {
			t.Errorf("parameter %d: gradient %v, not %v", i, weighted.gradients()[i], g)
		}
	}
	for i, k := range []int{0, 0, 1, 2} {
		if math.Abs(float64(a.TDErrors[k]-b.TDErrors[i])) > 1e-6 {
			t.Errorf("transition %d: TD errors %v and %v", k, a.TDErrors[k], b.TDErrors[i])
		}
	}
}

// y = r + discount·Q_target(s', argmax Q_online(s')): the two networks are set so
// that they disagree about the best action.
func TestDoubleDQNTargets(t *testing.T) {
	cfg := testConfig(3, 4)
	l := newTestLearner(t, cfg, 2, 3, 1)
	clear(l.online.flat)
	clear(l.target.flat)
	copy(l.online.Biases[1], []float32{1, 5, 2})    // chooses action 1
	copy(l.target.Biases[1], []float32{10, 20, 30}) // values it at 20
	b := rl.NewBatch(3, 2)
	copy(b.Rewards, []float32{1, 2, 3})
	copy(b.Discounts, []float32{1, 0.5, 0})
	l.shards[0].setTargets(l, b)
	for i, want := range []float32{21, 12, 3} {
		if l.shards[0].graph.targets[i] != want {
			t.Errorf("target %d is %v, not %v", i, l.shards[0].graph.targets[i], want)
		}
	}
}

// Each row of a batch of several shards has its own target, by the networks one by one.
func TestTargetsOfAllShards(t *testing.T) {
	const batch, inputs, actions = 2*shardRows + 5, 4, 3
	l := newTestLearner(t, testConfig(batch, 8), inputs, actions, 1)
	rng := rand.New(rand.NewPCG(2, 2))
	for i := range l.target.flat {
		l.target.flat[i] += 0.3 * (rng.Float32() - 0.5)
	}
	b := randomBatch(rng, batch, inputs, actions)
	choice, value, scratch := make([]float32, actions), make([]float32, actions), make([]float32, l.Act().Scratch())
	var want []float32
	for i := range batch {
		next := b.Next[i*inputs : (i+1)*inputs]
		l.online.q.Forward(choice, next, scratch)
		l.target.q.Forward(value, next, scratch)
		want = append(want, b.Rewards[i]+b.Discounts[i]*value[argmax(choice)])
	}
	var got []float32
	if _, err := l.Learn(b); err != nil {
		t.Fatal(err)
	}
	for _, s := range l.shards {
		got = append(got, s.graph.targets...)
	}
	if len(l.shards) != 3 || len(got) != batch {
		t.Fatalf("%d shards of %d rows in all", len(l.shards), len(got))
	}
	for i := range want {
		if math.Abs(float64(got[i]-want[i])) > 1e-5 {
			t.Errorf("row %d: target %v, want %v", i, got[i], want[i])
		}
	}
}

// Where s' advises an action, it is what follows, unless another is worth more by
// the margin; the margin is no part of the value.
func TestTargetsFollowAdvice(t *testing.T) {
	cfg := testConfig(2, 4)
	cfg.AdviceMargin = 3.5
	l := newTestLearner(t, cfg, 3, 3, 1)
	clear(l.online.flat)
	clear(l.target.flat)
	copy(l.online.Biases[1], []float32{1, 5, 2}) // 1 is 3 above 2, and 4 above 0
	copy(l.target.Biases[1], []float32{10, 20, 30})
	b := rl.NewBatch(2, 3)
	copy(b.Discounts, []float32{1, 1})
	copy(b.Next, []float32{0, 0, 1, 1, 0, 0}) // advise 2, then 0
	l.shards[0].setTargets(l, b)
	for i, want := range []float32{30, 20} {
		if l.shards[0].graph.targets[i] != want {
			t.Errorf("target %d is %v, not %v", i, l.shards[0].graph.targets[i], want)
		}
	}
}

func TestGradientIsClippedByItsGlobalNorm(t *testing.T) {
	if got := rl.GradientNorm([]float32{1, 2, 4, 2, 0, 0, 0, 0, 12}); got != 13 {
		t.Errorf("norm %v", got)
	}
	if rl.ClipFactor(3, 10) != 1 || rl.ClipFactor(20, 10) != 0.5 {
		t.Error("wrong factor")
	}
	// The first step of two learners that differ in the bound alone: Adam's
	// moments show the gradient that it was given.
	free, bound := testConfig(32, 8), testConfig(32, 8)
	free.ClipNorm, bound.ClipNorm = 1e9, 0.01
	a, b := newTestLearner(t, free, 4, 2, 1), newTestLearner(t, bound, 4, 2, 1)
	batch := randomBatch(rand.New(rand.NewPCG(1, 1)), 32, 4, 2)
	stats, err := a.Learn(batch)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Learn(batch); err != nil {
		t.Fatal(err)
	}
	if got := rl.GradientNorm(a.adam.First) / (1 - rl.Beta1); math.Abs(got-stats.GradientNorm) > 1e-5*got {
		t.Errorf("unclipped norm %v, not %v", got, stats.GradientNorm)
	}
	if got := rl.GradientNorm(b.adam.First) / (1 - rl.Beta1); math.Abs(got-0.01) > 1e-6 {
		t.Errorf("clipped norm %v", got)
	}
}

// A learner that starts from another's network has its values, whatever the head.
func TestStartFrom(t *testing.T) {
	for _, dueling := range []bool{false, true} {
		cfg := testConfig(8, 6)
		want := newTestLearner(t, cfg, 4, 3, 1).Act()
		cfg.Dueling = dueling
		l := newTestLearner(t, cfg, 4, 3, 2)
		if err := l.StartFrom(want); err != nil {
			t.Fatal(err)
		}
		for _, n := range []network{l.online, l.target} {
			n.fold()
			x, got, q := []float32{1, -2, 3, 0.5}, make([]float32, 3), make([]float32, 3)
			want.Forward(q, x, make([]float32, want.Scratch()))
			n.q.Forward(got, x, make([]float32, n.q.Scratch()))
			for i := range q {
				if math.Abs(float64(got[i]-q[i])) > 1e-5 {
					t.Errorf("dueling %v: values %v, not %v", dueling, got, q)
				}
			}
		}
		if l.StartFrom(newTestLearner(t, testConfig(8, 7), 4, 3, 1).Act()) == nil {
			t.Error("a network of other layers is taken")
		}
	}
}
