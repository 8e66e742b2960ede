// Package dqn learns Q-values by Double DQN (LBE-13): the online network chooses
// the next action and the target network values it. The gradient comes from a
// Gorgonia graph of fused operations; the optimiser is the package's own, so that
// its moments can be stored.
package dqn

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gearshift/rl"
	"gearshift/router/nn"
)

// ErrDiverged is returned by Learn when the loss or the gradient is not finite;
// the weights are then as before.
var ErrDiverged = errors.New("training diverged: the loss or its gradient is not finite")

// Learner is an rl.Learner of one fixed batch size.
type Learner struct {
	online, target network
	shards         []*shard
	adam           rl.Adam
	config         rl.Config
}

var _ rl.Learner = (*Learner)(nil)

// New makes a learner of cfg's hidden layers, batch size, Huber and clipping
// bounds, with initial weights drawn from rng and the target network equal to
// the online one.
func New(cfg rl.Config, inputs, actions int, rng *rand.Rand) (*Learner, error) {
	sizes := append(append([]int{inputs}, cfg.Hidden...), actions)
	l := &Learner{config: cfg}
	for _, n := range []*network{&l.online, &l.target} {
		made, err := newNetwork(sizes, cfg.Dueling)
		if err != nil {
			return nil, fmt.Errorf("cannot make a learner: %w", err)
		}
		*n = made
	}
	if cfg.Batch < 1 {
		return nil, fmt.Errorf("cannot make a learner: batch of %d", cfg.Batch)
	}
	l.online.Randomise(rng)
	l.online.fold()
	l.MoveTarget(1)
	shards, err := newShards(cfg, &l.online)
	if err != nil {
		return nil, fmt.Errorf("cannot make a learner: %w", err)
	}
	l.shards = shards
	l.adam = rl.NewAdam(len(l.online.flat), cfg.LearningRate)
	return l, nil
}

// Act is the online network; its memory is the one that Learn changes.
func (l *Learner) Act() *nn.MLP { return l.online.q }

// StartFrom makes m's weights those of both networks, in place of drawn ones. It
// is for a learner that has learnt nothing yet.
func (l *Learner) StartFrom(m *nn.MLP) error {
	if !slices.Equal(m.Sizes, l.online.q.Sizes) {
		return fmt.Errorf("cannot start from a network of layers %v: the learner's are %v", m.Sizes, l.online.q.Sizes)
	}
	l.online.unfold(m)
	l.MoveTarget(1)
	return nil
}

// MoveTarget moves the target network towards the online network.
func (l *Learner) MoveTarget(share float64) {
	if share == 1 {
		copy(l.target.flat, l.online.flat)
	} else {
		towards(l.target.flat, l.online.flat, float32(share))
	}
	l.target.fold()
}

// towards moves v by a share of its difference from to.
func towards(v, to []float32, share float32) {
	to = to[:len(v)]
	for i, x := range v {
		v[i] = x + share*(to[i]-x)
	}
}

// SetLearningRate sets the rate of the next steps.
func (l *Learner) SetLearningRate(rate float64) { l.adam.Rate = rate }

// Learn takes one gradient step. The batch must have the size in the learner's
// config.
func (l *Learner) Learn(b *rl.Batch) (rl.Stats, error) {
	if err := l.check(b); err != nil {
		return rl.Stats{}, err
	}
	if err := l.runShards(b); err != nil {
		return rl.Stats{}, fmt.Errorf("cannot take a gradient step: %w", err)
	}
	gradients := l.gradients()
	stats := rl.Stats{GradientNorm: rl.GradientNorm(gradients)}
	for _, s := range l.shards {
		stats.Loss += float64(*s.graph.loss.loss)
		stats.TDError += s.graph.loss.tdError
	}
	if !finite(stats.Loss) || !finite(stats.GradientNorm) {
		return stats, ErrDiverged
	}
	l.adam.Step(l.online.flat, gradients, rl.ClipFactor(stats.GradientNorm, l.config.ClipNorm))
	l.online.fold()
	return stats, nil
}

// check refuses a batch that the graph would misread.
func (l *Learner) check(b *rl.Batch) error {
	n := l.config.Batch
	observations := n * l.online.Inputs()
	if len(b.Actions) != n || len(b.Rewards) != n || len(b.Discounts) != n ||
		len(b.TDErrors) != n || (b.Weights != nil && len(b.Weights) != n) ||
		len(b.Observations) != observations || len(b.Next) != observations {
		return fmt.Errorf("cannot learn from a batch of %d: the learner takes %d", len(b.Actions), n)
	}
	for _, a := range b.Actions {
		if a < 0 || int(a) >= l.online.q.Outputs() {
			return fmt.Errorf("cannot learn from action %d of %d", a, l.online.q.Outputs())
		}
	}
	return nil
}

// argmax is the index of the largest value, the first of equals.
func argmax(v []float32) int {
	best := 0
	for i, x := range v {
		if x > v[best] {
			best = i
		}
	}
	return best
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
