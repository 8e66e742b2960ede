package dqn

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"gearshift/rl"
	"gearshift/rl/fused"
	"gearshift/rl/rltest"
)

func testConfig(batch int, hidden ...int) rl.Config {
	return rl.Config{Hidden: hidden, Batch: batch, LearningRate: 1e-3, Huber: 1, ClipNorm: 10}
}

func newTestLearner(t testing.TB, cfg rl.Config, inputs, actions int, seed uint64) *Learner {
	t.Helper()
	l, err := New(cfg, inputs, actions, rand.New(rl.Weights.PCG(seed)))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// randomBatch draws a batch of n, with every tenth transition terminal.
func randomBatch(rng *rand.Rand, n, inputs, actions int) *rl.Batch {
	b := rl.NewBatch(n, inputs)
	for i := range b.Observations {
		b.Observations[i] = rng.Float32()*2 - 1
		b.Next[i] = rng.Float32()*2 - 1
	}
	for i := range n {
		b.Actions[i] = int32(rng.IntN(actions))
		b.Rewards[i] = rng.Float32()*4 - 2
		if i%10 != 0 {
			b.Discounts[i] = 0.9 + 0.1*rng.Float32()
		}
	}
	return b
}

func TestLearnRefusesWhatItWouldMisread(t *testing.T) {
	l := newTestLearner(t, testConfig(8, 4), 5, 3, 1)
	rng := rand.New(rand.NewPCG(1, 1))
	before := slices.Clone(l.online.flat)
	action := randomBatch(rng, 8, 5, 3)
	action.Actions[7] = 3
	fewWeights, noErrors := randomBatch(rng, 8, 5, 3), randomBatch(rng, 8, 5, 3)
	fewWeights.Weights = []float32{1}
	noErrors.TDErrors = nil
	for name, b := range map[string]*rl.Batch{
		"another size": randomBatch(rng, 9, 5, 3),
		"other inputs": randomBatch(rng, 8, 6, 3),
		"action":       action,
		"few weights":  fewWeights,
		"no TD errors": noErrors,
	} {
		if _, err := l.Learn(b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, poison := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
		b := randomBatch(rng, 8, 5, 3)
		b.Rewards[3] = poison
		if _, err := l.Learn(b); !errors.Is(err, ErrDiverged) {
			t.Errorf("reward %v: error %v", poison, err)
		}
	}
	if !slices.Equal(l.online.flat, before) {
		t.Error("the weights changed")
	}
}

func TestTargetFollowsOnlyAtSync(t *testing.T) {
	l := newTestLearner(t, testConfig(8, 4), 5, 3, 1)
	initial := slices.Clone(l.target.flat)
	if !slices.Equal(initial, l.online.flat) {
		t.Error("the target network does not begin as the online network")
	}
	if _, err := l.Learn(randomBatch(rand.New(rand.NewPCG(1, 1)), 8, 5, 3)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(l.target.flat, initial) || slices.Equal(l.online.flat, initial) {
		t.Error("a step changes the target network, or not the online network")
	}
	x, y := l.target.flat[0], l.online.flat[0]
	l.MoveTarget(0.25)
	if got := l.target.flat[0]; math.Abs(float64(got-(x+(y-x)/4))) > 1e-6 {
		t.Errorf("a quarter of the way from %v to %v lies %v", x, y, got)
	}
	l.MoveTarget(1)
	if !slices.Equal(l.target.flat, l.online.flat) {
		t.Error("the target network is not the online network after a sync")
	}
}

// The loop's own resumption, with this learner: straight and in two parts.
func TestResumeIsBitEqual(t *testing.T) {
	cfg := rltest.Config()
	cfg.Decisions = 600
	chain := func(t *testing.T) rl.Run { return rltest.NewRun(t, newForKit, cfg, &rltest.Chain{}, 2, 3) }
	t.Run("uniform", func(t *testing.T) { resumes(t, chain) })
	cfg.Priority = &rl.Priority{Exponent: 0.6, Correction: 0.4}
	t.Run("prioritised", func(t *testing.T) { resumes(t, chain) })
}

// resumes holds that a run in two parts, of which the first has 333 decisions,
// ends as it does straight.
func resumes(t *testing.T, run func(t *testing.T) rl.Run) {
	t.Helper()
	var progress [2][]byte
	for i, stop := range []int{0, 333} {
		var from *rl.Progress
		for part := range 2 {
			r := run(t)
			r.Save = func(p *rl.Progress) (err error) {
				progress[i], err = p.MarshalBinary()
				return err
			}
			if part == 0 {
				r.Stop = stop
			}
			if _, err := rl.Train(t.Context(), r, from); err != nil {
				t.Fatal(err)
			}
			from = new(rl.Progress)
			if err := from.UnmarshalBinary(progress[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !bytes.Equal(progress[0], progress[1]) {
		t.Error("resumed training ends elsewhere than straight training")
	}
}

// Learners in different goroutines do not disturb each other.
func TestLearnersAreIndependent(t *testing.T) {
	const learners = 4
	var weights [learners][]float32
	var wg sync.WaitGroup
	for i := range learners {
		wg.Go(func() {
			l, err := New(testConfig(16, 8, 8), 4, 3, rand.New(rand.NewPCG(1, 1)))
			if err != nil {
				t.Error(err)
				return
			}
			rng := rand.New(rand.NewPCG(2, 2))
			for range 20 {
				if _, err := l.Learn(randomBatch(rng, 16, 4, 3)); err != nil {
					t.Error(err)
				}
			}
			weights[i] = l.online.flat
		})
	}
	wg.Wait()
	for i := range learners {
		if !slices.Equal(weights[i], weights[0]) {
			t.Errorf("learner %d ends elsewhere", i)
		}
	}
}

func TestStepAllocatesLittle(t *testing.T) {
	l := newTestLearner(t, testConfig(64, 32, 32), 9, 3, 1)
	b := randomBatch(rand.New(rand.NewPCG(1, 1)), 64, 9, 3)
	step := func() {
		if _, err := l.Learn(b); err != nil {
			t.Fatal(err)
		}
	}
	step()
	if n := testing.AllocsPerRun(20, step); n > 300 {
		t.Errorf("%v allocations a step", n)
	}
}

// go test -run '^$' -bench Learn ./rl/dqn [-tags openblas]
func BenchmarkLearn(b *testing.B) {
	for _, size := range []struct{ hidden, batch int }{{128, 256}, {256, 1024}} {
		b.Run(fmt.Sprintf("%s/9-%d-%d-3/batch=%d", fused.BLAS(), size.hidden, size.hidden, size.batch), func(b *testing.B) {
			l := newTestLearner(b, testConfig(size.batch, size.hidden, size.hidden), 9, 3, 1)
			batch := randomBatch(rand.New(rand.NewPCG(1, 2)), size.batch, 9, 3)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Learn(batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A batch of several shards gives the same bits on any number of cores.
func TestStepsAreEqualOnAnyNumberOfCores(t *testing.T) {
	const batch, cores = 2*shardRows + 5, 3
	var weights, errors [cores][]float32
	var stats [cores]rl.Stats
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for n := range cores {
		runtime.GOMAXPROCS(n + 1)
		l := newTestLearner(t, testConfig(batch, 16, 16), 5, 3, 1)
		rng := rand.New(rand.NewPCG(1, 1))
		for range 5 {
			b := randomBatch(rng, batch, 5, 3)
			var err error
			if stats[n], err = l.Learn(b); err != nil {
				t.Fatal(err)
			}
			weights[n], errors[n] = l.online.flat, b.TDErrors
		}
		if stats[n] != stats[0] || !slices.Equal(weights[n], weights[0]) || !slices.Equal(errors[n], errors[0]) {
			t.Errorf("%d cores: %+v, not %+v, or other weights or TD errors", n+1, stats[n], stats[0])
		}
	}
}
