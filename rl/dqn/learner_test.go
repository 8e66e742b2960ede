package dqn

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gearshift/rl"
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

// go test -run '^$' -bench Learn ./rl/dqn [-tags openblas]
func BenchmarkLearn(b *testing.B) {
	for _, size := range []struct{ hidden, batch int }{{128, 256}, {256, 1024}} {
		b.Run(fmt.Sprintf("%s/9-%d-%d-3/batch=%d", BLAS(), size.hidden, size.hidden, size.batch), func(b *testing.B) {
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
