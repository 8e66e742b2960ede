package dqn

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gearshift/rl"
	"gearshift/rl/rltest"
	"gearshift/router/nn"
)

func newRows(t testing.TB, cfg rl.Config, rows rl.Rows, seed uint64) *RowLearner {
	t.Helper()
	l, err := NewRows(cfg, rows, rand.New(rl.Weights.PCG(seed)))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func marketRun(t testing.TB, cfg rl.Config, env *rltest.Market) rl.Run {
	t.Helper()
	return rl.Run{
		Config: cfg, Seed: 1, Envs: []rl.Env{env}, Rows: env.Rows(), Learner: newRows(t, cfg, env.Rows(), 1),
		EpisodeSeed: func(k uint64) uint64 { return 1<<32 + k },
	}
}

// best is the open row that the network values most.
func best(m *nn.MLP, rows rl.Rows, observation []float32) int {
	x, q, scratch := make([]float32, m.Inputs()), make([]float32, 1), make([]float32, m.Scratch())
	best, highest := -1, float32(0)
	for a := range rows.Count {
		rows.Row(x, observation, a)
		if m.Forward(q, x, scratch); rows.Open(observation, a) && (best < 0 || q[0] > highest) {
			best, highest = a, q[0]
		}
	}
	return best
}

// takenRun is marketRun where rewards are all that a decision is worth, and replay keeps the rows taken.
func takenRun(t testing.TB, cfg rl.Config) rl.Run {
	t.Helper()
	cfg.DifferenceRewards = true
	r := marketRun(t, cfg, &rltest.Market{Size: 4})
	r.Rows.Taken = true
	l, err := New(cfg, r.Rows.Inputs(), 1, rand.New(rl.Weights.PCG(1)))
	if err != nil {
		t.Fatal(err)
	}
	r.Learner = l
	return r
}

// What is learnt with four goods chooses well among four, and among nine.
func TestRowsLearnTheMarket(t *testing.T) {
	learnsTheMarket(t, marketRun(t, rltest.Config(), &rltest.Market{Size: 4}))
}

func TestRowsTakenLearnTheMarket(t *testing.T) { learnsTheMarket(t, takenRun(t, rltest.Config())) }

func learnsTheMarket(t *testing.T, r rl.Run) {
	t.Helper()
	result, err := rl.Train(t.Context(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{4, 9} {
		env := &rltest.Market{Size: size}
		observation := env.Reset(99)
		var regret float64
		const decisions = 500
		for range decisions {
			a := best(result.Network, env.Rows(), observation)
			highest := math.Inf(-1)
			for other := range size {
				highest = max(highest, env.Worth(observation, other))
			}
			regret += highest - env.Worth(observation, a)
			observation = env.Step(a).Observation
		}
		if regret /= decisions; regret > 0.05 {
			t.Errorf("%d goods: %.3f lost at each decision", size, regret)
		}
	}
}

func TestRowsResumeIsBitEqual(t *testing.T) {
	cfg := rltest.Config()
	cfg.Decisions = 600
	cfg.Priority = &rl.Priority{Exponent: 0.6, Correction: 0.4}
	resumes(t, func(t *testing.T) rl.Run { return marketRun(t, cfg, &rltest.Market{Size: 4}) })
	resumes(t, func(t *testing.T) rl.Run { return takenRun(t, cfg) })
}

// rowBatch draws a batch in which half of the next rows are closed.
func rowBatch(rng *rand.Rand, n int, rows rl.Rows) *rl.Batch {
	b := randomBatch(rng, n, rows.Dim(), rows.Count)
	for i := range n {
		for a := range rows.Count {
			b.Next[i*rows.Dim()+rows.Shared+a*rows.Own] = float32(rng.IntN(2))
		}
	}
	return b
}

// The target is the target network's value of the open row that the online
// network likes best, and the loss is that of the row taken.
func TestRowsTargets(t *testing.T) {
	rows := rl.Rows{Shared: 2, Own: 3, Count: 4}
	const n = 16
	l := newRows(t, testConfig(n, 8, 8), rows, 1)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 5 { // until online and target network differ
		if _, err := l.Learn(rowBatch(rng, n, rows)); err != nil {
			t.Fatal(err)
		}
	}
	b := rowBatch(rng, n, rows)
	clear(b.Next[:rows.Dim()]) // nothing open at the end of an episode
	online, target := l.online.Clone(), l.target.Clone()
	x, q, scratch := make([]float32, rows.Inputs()), make([]float32, 1), make([]float32, target.Scratch())
	value := func(m *nn.MLP, observation []float32, a int) float32 {
		rows.Row(x, observation, a)
		m.Forward(q, x, scratch)
		return q[0]
	}
	if _, err := l.Learn(b); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		next := b.Next[i*rows.Dim() : (i+1)*rows.Dim()]
		want := b.Rewards[i]
		if a := best(online, rows, next); a >= 0 {
			want += b.Discounts[i] * value(target, next, a)
		} else if b.Discounts[i] != 0 {
			want += b.Discounts[i] * value(target, next, 0)
		}
		if got := l.shards[0].graph.targets[i]; math.Abs(float64(got-want)) > 1e-5 {
			t.Errorf("transition %d: target %v, want %v", i, got, want)
		}
		rows.Row(x, b.Observations[i*rows.Dim():(i+1)*rows.Dim()], int(b.Actions[i]))
		if got := l.shards[0].graph.observations[i*rows.Inputs() : (i+1)*rows.Inputs()]; !slices.Equal(got, x) {
			t.Errorf("transition %d: learns from %v, taken was %v", i, got, x)
		}
		online.Forward(q, x, scratch)
		if e := math.Abs(float64(q[0] - want)); math.Abs(e-float64(b.TDErrors[i])) > 1e-5 {
			t.Errorf("transition %d: TD error %v, want %v", i, b.TDErrors[i], e)
		}
	}
}

// Weights of 1 are no weights, and those of 0 leave nothing to learn.
func TestRowsHeedWeights(t *testing.T) {
	rows := rl.Rows{Shared: 2, Own: 3, Count: 4}
	const n = 16
	var learnt [3][]float32
	for i, weights := range [][]float32{nil, slices.Repeat([]float32{1}, n), make([]float32, n)} {
		l := newRows(t, testConfig(n, 8), rows, 1)
		b := rowBatch(rand.New(rand.NewPCG(1, 1)), n, rows)
		b.Weights = weights
		if _, err := l.Learn(b); err != nil {
			t.Fatal(err)
		}
		learnt[i] = slices.Clone(l.online.flat)
	}
	if !slices.Equal(learnt[0], learnt[1]) {
		t.Error("weights of 1 are not the same as none")
	}
	if !slices.Equal(learnt[2], newRows(t, testConfig(n, 8), rows, 1).online.flat) {
		t.Error("weights of 0 change the network")
	}
}

func TestRowsRefuseWhatTheyWouldMisread(t *testing.T) {
	rows := rl.Rows{Shared: 2, Own: 3, Count: 4}
	l := newRows(t, testConfig(8, 4), rows, 1)
	rng := rand.New(rand.NewPCG(1, 1))
	action := rowBatch(rng, 8, rows)
	action.Actions[7] = 4
	for name, b := range map[string]*rl.Batch{
		"another size": rowBatch(rng, 9, rows),
		"other rows":   rowBatch(rng, 8, rl.Rows{Shared: 2, Own: 3, Count: 5}),
		"action":       action,
	} {
		if _, err := l.Learn(b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := NewRows(testConfig(8, 4), rl.Rows{Shared: 2}, rng); err == nil {
		t.Error("a learner of no rows is made")
	}
	r := marketRun(t, rltest.Config(), &rltest.Market{Size: 4})
	r.Rows.Own++
	if _, err := rl.Train(t.Context(), r, nil); err == nil {
		t.Error("a run of other rows than the learner's begins")
	}
	cfg := rltest.Config()
	r = takenRun(t, cfg)
	r.Config.DifferenceRewards = false
	if _, err := rl.Train(t.Context(), r, nil); err == nil {
		t.Error("a run keeps only the rows taken, and what follows counts")
	}
	cfg.AdviceMargin = 0.1
	if _, err := rl.Train(t.Context(), marketRun(t, cfg, &rltest.Market{Size: 4}), nil); err == nil {
		t.Error("a run of rows begins that is to heed advice")
	}
}

// go test -run '^$' -bench LearnRows ./rl/dqn [-tags openblas]
func BenchmarkLearnRows(b *testing.B) {
	rows := rl.Rows{Shared: 18, Own: 13, Count: 12}
	l := newRows(b, testConfig(256, 64, 64), rows, 1)
	batch := rowBatch(rand.New(rand.NewPCG(1, 2)), 256, rows)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Learn(batch); err != nil {
			b.Fatal(err)
		}
	}
}
