package dqn

import (
	"math"
	"math/rand/v2"
	"testing"

	"gearshift/rl"
)

// sequence draws numbers that any language draws alike: a linear congruential
// generator, so that scripts/peers/learner.py takes the very same steps.
type sequence uint32

// next is uniform on [−1, 1).
func (s *sequence) next() float64 {
	*s = *s*1664525 + 1013904223
	return float64(*s)/(1<<31) - 1
}

func (s *sequence) fill(dst []float32, scale float64) {
	for i := range dst {
		dst[i] = float32(s.next() * scale)
	}
}

// weights draws those of the learner's networks, He's bound for each layer.
func (s *sequence) weights(l *Learner) {
	for i, w := range l.online.Weights {
		s.fill(w, math.Sqrt(6/float64(l.online.Sizes[i])))
		clear(l.online.Biases[i])
	}
	l.online.fold()
	l.MoveTarget(1)
}

// batch draws one, with every tenth transition terminal.
func (s *sequence) batch(n, inputs, actions int) *rl.Batch {
	b := rl.NewBatch(n, inputs)
	s.fill(b.Observations, 1)
	s.fill(b.Next, 1)
	s.fill(b.Rewards, 2)
	for i := range n {
		b.Actions[i] = int32((s.next() + 1) / 2 * float64(actions))
		if i%10 != 0 {
			b.Discounts[i] = 0.95
		}
	}
	return b
}

// BenchmarkStep is the whole of a Double-DQN step at the shapes that
// scripts/bench-compare.sh compares: targets, gradient, clipping, Adam, and the
// target network's move. "check" is the loss after 50 steps, times 10⁹: a peer
// that takes the same steps has nearly the same.
//
//	go test -run '^$' -bench Step ./rl/dqn [-tags openblas]
func BenchmarkStep(b *testing.B) {
	for _, size := range []struct {
		name          string
		inputs, batch int
		cfg           rl.Config
	}{
		{"9-256-256-3/batch=1024", 9, 1024, rl.Config{Hidden: []int{256, 256}, LearningRate: 1e-4}},
		{"25-64-64-dueling-3/batch=256", 25, 256, rl.Config{Hidden: []int{64, 64}, LearningRate: 5e-4, Dueling: true, AdviceMargin: 0.03}},
	} {
		b.Run(size.name, func(b *testing.B) {
			const actions, moved = 3, 0.002
			cfg := size.cfg
			cfg.Batch, cfg.Huber, cfg.ClipNorm = size.batch, 1, 10
			l, err := New(cfg, size.inputs, actions, rand.New(rand.NewPCG(1, 1)))
			if err != nil {
				b.Fatal(err)
			}
			s := sequence(1)
			s.weights(l)
			batch := s.batch(size.batch, size.inputs, actions)
			var stats rl.Stats
			step := func() {
				if stats, err = l.Learn(batch); err != nil {
					b.Fatal(err)
				}
				l.MoveTarget(moved)
			}
			for range 50 {
				step()
			}
			check := math.Round(stats.Loss * 1e9)
			b.ReportAllocs()
			for b.Loop() {
				step()
			}
			b.ReportMetric(check, "check")
		})
	}
}
