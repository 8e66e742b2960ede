package rltest

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gearshift/rl"
	"gearshift/router/nn"
)

// New makes a learner with weights drawn from rng.
type New func(cfg rl.Config, inputs, actions int, rng *rand.Rand) (rl.Learner, error)

// TestLearner checks that a kind of learner keeps rl.Learner's contract and
// solves the toy environments:
//
//	rltest.TestLearner(t, rltest.NewLinear)
func TestLearner(t *testing.T, make New) {
	t.Run("identity", func(t *testing.T) { testIdentity(t, make) })
	for name, discount := range map[string]rl.Discount{
		"per step":     {PerStep: 0.9},
		"elapsed time": {TimeConstant: 10},
	} {
		cfg := Config()
		cfg.Discount = discount
		t.Run("chain, truncated, "+name, func(t *testing.T) { testChain(t, make, cfg, false) })
		t.Run("chain, terminated, "+name, func(t *testing.T) { testChain(t, make, cfg, true) })
	}
	t.Run("chain, prioritised replay", func(t *testing.T) {
		cfg := Config()
		cfg.Priority = &rl.Priority{Exponent: 0.6, Correction: 0.4}
		testChain(t, make, cfg, false)
	})
	t.Run("same seed, same weights", func(t *testing.T) { testSameSeed(t, make) })
	t.Run("weights and TD errors", func(t *testing.T) { testWeights(t, make) })
	t.Run("decoded learner goes on bit-equal", func(t *testing.T) { testDecode(t, make) })
	t.Run("bad encodings are refused", func(t *testing.T) { testBadEncodings(t, make) })
}

// Config is a training configuration for the toy environments.
func Config() rl.Config {
	return rl.Config{
		Decisions:         3000,
		Hidden:            []int{24},
		Batch:             32,
		TrainEvery:        2,
		LearningRate:      5e-3,
		FinalLearningRate: 1e-3,
		FinalShare:        0.2,
		Discount:          rl.Discount{PerStep: 0.9},
		TargetSync:        25,
		Epsilon:           rl.Epsilon{Start: 1, End: 0.1, Share: 0.5},
		Replay:            1000,
		Warmup:            100,
		Huber:             1,
		ClipNorm:          10,
		CentreRewards:     true,
		WeightAverage:     0.99,
		Episode:           50,
		ValidateEvery:     500,
		CheckpointEvery:   500,
	}
}

// NewRun joins a fresh learner to an environment, for a run of Train.
func NewRun(t testing.TB, make New, cfg rl.Config, env rl.Env, actions int, seed uint64) rl.Run {
	t.Helper()
	inputs := len(env.Reset(0))
	learner, err := make(cfg, inputs, actions, rand.New(rl.Weights.PCG(seed)))
	if err != nil {
		t.Fatal(err)
	}
	return rl.Run{
		Config:      cfg,
		Seed:        seed,
		Envs:        []rl.Env{env},
		Learner:     learner,
		EpisodeSeed: func(k uint64) uint64 { return seed<<32 + k },
	}
}

// trained runs Train to its end and returns the network.
func trained(t testing.TB, r rl.Run) *nn.MLP {
	t.Helper()
	result, err := rl.Train(context.Background(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return result.Network
}

// Greedy is the network's best action where the observation is one-hot at hot.
func Greedy(m *nn.MLP, hot int) int {
	x, q := make([]float32, m.Inputs()), make([]float32, m.Outputs())
	x[hot] = 1
	m.Forward(q, x, make([]float32, m.Scratch()))
	return slices.Index(q, slices.Max(q))
}

func testIdentity(t *testing.T, make New) {
	const size = 4
	m := trained(t, NewRun(t, make, Config(), &Identity{Size: size}, size, 1))
	for hot := range size {
		if got := Greedy(m, hot); got != hot {
			t.Errorf("action %d at observation %d", got, hot)
		}
	}
}

func testChain(t *testing.T, make New, cfg rl.Config, terminates bool) {
	m := trained(t, NewRun(t, make, cfg, &Chain{Terminates: terminates}, 2, 1))
	if Greedy(m, Start) != 1 {
		t.Error("the learner prefers the small utility now to the large one later")
	}
}

func testSameSeed(t *testing.T, make New) {
	cfg := Config()
	cfg.Decisions = 400
	var networks [3][]byte
	for i, seed := range []uint64{1, 1, 2} {
		networks[i] = encoded(t, trained(t, NewRun(t, make, cfg, &Identity{Size: 3}, 3, seed)))
	}
	if !bytes.Equal(networks[0], networks[1]) {
		t.Error("one seed gives two networks")
	}
	if bytes.Equal(networks[0], networks[2]) {
		t.Error("two seeds give one network")
	}
}

// Weights of 1 are no weights, and those of 0 leave nothing to learn; whatever the
// weights, a transition's TD error is its own.
func testWeights(t *testing.T, make New) {
	const inputs, actions = 5, 3
	cfg := Config()
	same := func(weight float32) []float32 { return slices.Repeat([]float32{weight}, cfg.Batch) }
	var learnt [3][]byte
	for i, weights := range [][]float32{nil, same(1), same(0)} {
		b := randomBatch(rand.New(rand.NewPCG(1, 1)), cfg.Batch, inputs, actions)
		b.Weights = weights
		l := learner(t, make, cfg, inputs, actions, 1)
		l.SetLearningRate(1e-2)
		stats, err := l.Learn(b)
		if err != nil {
			t.Fatal(err)
		}
		learnt[i] = encoded(t, l.Act())
		var mean float64
		for _, e := range b.TDErrors {
			mean += float64(e) / float64(cfg.Batch)
		}
		if mean == 0 || math.Abs(mean-stats.TDError) > 1e-5 {
			t.Errorf("TD errors have mean %v, the step's is %v", mean, stats.TDError)
		}
	}
	if !bytes.Equal(learnt[0], learnt[1]) {
		t.Error("weights of 1 are not the same as none")
	}
	if !bytes.Equal(learnt[2], encoded(t, learner(t, make, cfg, inputs, actions, 1).Act())) {
		t.Error("weights of 0 change the network")
	}
}

func testDecode(t *testing.T, make New) {
	const inputs, actions = 5, 3
	cfg := Config()
	rng := rand.New(rand.NewPCG(1, 1))
	a, b := learner(t, make, cfg, inputs, actions, 1), learner(t, make, cfg, inputs, actions, 2)
	step := func(l rl.Learner, batch *rl.Batch) {
		l.SetLearningRate(1e-2)
		if _, err := l.Learn(batch); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 7 {
		step(a, randomBatch(rng, cfg.Batch, inputs, actions))
		if i == 3 {
			a.MoveTarget(1)
		}
	}
	act := b.Act()
	if err := b.UnmarshalBinary(encoded(t, a)); err != nil {
		t.Fatal(err)
	}
	for i := range 7 {
		batch := randomBatch(rng, cfg.Batch, inputs, actions)
		step(a, batch)
		step(b, batch)
		if i == 3 {
			a.MoveTarget(1)
			b.MoveTarget(1)
		}
	}
	if !bytes.Equal(encoded(t, a), encoded(t, b)) {
		t.Error("the decoded learner went another way")
	}
	if act != b.Act() || !bytes.Equal(encoded(t, act), encoded(t, a.Act())) {
		t.Error("Act no longer returns the live network")
	}
}

func testBadEncodings(t *testing.T, make New) {
	l := learner(t, make, Config(), 5, 3, 1)
	before := encoded(t, l)
	other := encoded(t, learner(t, make, Config(), 6, 3, 1))
	for name, data := range map[string][]byte{
		"empty":       nil,
		"cut short":   before[:len(before)-1],
		"too long":    append(slices.Clone(before), 0),
		"other sizes": other,
	} {
		if l.UnmarshalBinary(data) == nil {
			t.Errorf("%s: accepted", name)
		}
		if !bytes.Equal(encoded(t, l), before) {
			t.Fatalf("%s: the learner changed", name)
		}
	}
}

func learner(t testing.TB, make New, cfg rl.Config, inputs, actions int, seed uint64) rl.Learner {
	t.Helper()
	l, err := make(cfg, inputs, actions, rand.New(rl.Weights.PCG(seed)))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func encoded(t testing.TB, v interface{ MarshalBinary() ([]byte, error) }) []byte {
	t.Helper()
	data, err := v.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// randomBatch draws a batch with every fifth transition terminal.
func randomBatch(rng *rand.Rand, n, inputs, actions int) *rl.Batch {
	b := rl.NewBatch(n, inputs)
	for i := range b.Observations {
		b.Observations[i] = 2*rng.Float32() - 1
		b.Next[i] = 2*rng.Float32() - 1
	}
	for i := range n {
		b.Actions[i] = int32(rng.IntN(actions))
		b.Rewards[i] = 4*rng.Float32() - 2
		if i%5 != 0 {
			b.Discounts[i] = 0.9 + 0.1*rng.Float32()
		}
	}
	return b
}
