package rltest

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"gearshift/rl"
	"gearshift/router/nn"
)

// Linear is a learner without hidden layers, by plain stochastic gradient
// descent: enough for the toy environments, and for tests of the loop.
type Linear struct {
	online, target *nn.MLP
	rate           float64
	scratch        []float32
	now, next      []float32
	following      []float32
}

// NewLinear makes a linear learner; of cfg it reads the learning rate.
func NewLinear(cfg rl.Config, inputs, actions int, rng *rand.Rand) (rl.Learner, error) {
	m, err := nn.New(inputs, actions)
	if err != nil {
		return nil, err
	}
	m.Randomise(rng)
	return &Linear{
		online:    m,
		target:    m.Clone(),
		rate:      cfg.LearningRate,
		scratch:   make([]float32, m.Scratch()),
		now:       make([]float32, actions),
		next:      make([]float32, actions),
		following: make([]float32, actions),
	}, nil
}

// Act is the online network.
func (l *Linear) Act() *nn.MLP { return l.online }

// SetLearningRate sets the rate of the next steps.
func (l *Linear) SetLearningRate(rate float64) { l.rate = rate }

// MoveTarget moves the target network towards the online network.
func (l *Linear) MoveTarget(share float64) {
	move := func(v, to []float32) {
		for i := range v {
			v[i] = float32(1-share)*v[i] + float32(share)*to[i]
		}
	}
	move(l.target.Weights[0], l.online.Weights[0])
	move(l.target.Biases[0], l.online.Biases[0])
}

// Learn takes one step for each transition of the batch.
func (l *Linear) Learn(b *rl.Batch) (rl.Stats, error) {
	var s rl.Stats
	inputs, outputs := l.online.Inputs(), l.online.Outputs()
	for i, a := range b.Actions {
		x := b.Observations[i*inputs : (i+1)*inputs]
		following := b.Next[i*inputs : (i+1)*inputs]
		l.online.Forward(l.now, x, l.scratch)
		l.online.Forward(l.next, following, l.scratch)
		l.target.Forward(l.following, following, l.scratch)
		best := slices.Index(l.next, slices.Max(l.next))
		td := l.now[a] - (b.Rewards[i] + b.Discounts[i]*l.following[best])
		weight := float32(1)
		if b.Weights != nil {
			weight = b.Weights[i]
		}
		b.TDErrors[i] = float32(math.Abs(float64(td)))
		step := float32(l.rate) * weight * td
		for k, v := range x {
			l.online.Weights[0][k*outputs+int(a)] -= step * v
		}
		l.online.Biases[0][a] -= step
		n := float64(len(b.Actions))
		s.Loss += float64(weight*td*td) / 2 / n
		s.TDError += math.Abs(float64(td)) / n
	}
	return s, nil
}

// MarshalBinary encodes both networks, the first after its length.
func (l *Linear) MarshalBinary() ([]byte, error) {
	online, err := l.online.MarshalBinary()
	target, err2 := l.target.MarshalBinary()
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(online)))
	return append(append(out, online...), target...), errors.Join(err, err2)
}

// UnmarshalBinary decodes what MarshalBinary wrote.
func (l *Linear) UnmarshalBinary(data []byte) error {
	if len(data) < 8 || binary.LittleEndian.Uint64(data) > uint64(len(data)-8) {
		return errors.New("cannot decode learner: it is cut short")
	}
	size := 8 + binary.LittleEndian.Uint64(data)
	var online, target nn.MLP
	if err := errors.Join(online.UnmarshalBinary(data[8:size]), target.UnmarshalBinary(data[size:])); err != nil {
		return err
	}
	if !slices.Equal(online.Sizes, l.online.Sizes) || !slices.Equal(target.Sizes, l.online.Sizes) {
		return errors.New("cannot decode learner: its sizes differ")
	}
	*l.online, *l.target = online, target
	return nil
}
