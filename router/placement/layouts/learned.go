package layouts

import (
	"fmt"
	"time"

	"gearshift/router/nn"
)

// The times of a [Learned], and the headroom of the estimate that it sees, for [Rule].
const (
	LearnedHorizon  = 4 * time.Second
	LearnedStay     = 5 * time.Second
	LearnedHeadroom = 1.2
)

// Learned is a [Chooser] that takes the change which a network values most, if that is worth more than to stay by a
// margin. Once it has seen a situation, it allocates nothing.
type Learned struct {
	network     *nn.MLP
	margin      float32
	encoder     *Encoder
	observation []float32
	row         []float32
	scratch     []float32
}

// NewLearned returns a chooser by a network that maps the numbers of a row of an [Encoder] to its value.
func NewLearned(network *nn.MLP, margin float64) (*Learned, error) {
	if network.Inputs() != Shared+Own || network.Outputs() != 1 {
		return nil, fmt.Errorf("the network maps %d inputs to %d outputs; want %d to 1", network.Inputs(), network.Outputs(), Shared+Own)
	}
	if !(margin >= 0) {
		return nil, fmt.Errorf("the margin is %v; want a number from 0", margin)
	}
	return &Learned{network: network, margin: float32(margin), row: make([]float32, Shared+Own), scratch: make([]float32, network.Scratch())}, nil
}

// Rule returns the chooser with its times.
func (l *Learned) Rule() Rule { return By(l) }

// By returns a rule of the chooser with the times of a [Learned].
func By(c Chooser) Rule { return Rule{c, LearnedHorizon, LearnedStay, LearnedHeadroom} }

// Choose implements [Chooser].
func (l *Learned) Choose(s *Situation) Change {
	if l.encoder == nil {
		l.encoder = NewEncoder(s)
		l.observation = make([]float32, l.encoder.Dim())
	}
	l.encoder.Encode(l.observation, s)
	if !l.encoder.Due() {
		return None("nothing is to be decided now")
	}
	best, most := 0, l.value(0)+l.margin
	for row := 1; row < l.encoder.Rows(); row++ {
		if l.observation[Shared+row*Own] == 0 {
			continue
		}
		if v := l.value(row); v > most {
			best, most = row, v
		}
	}
	l.encoder.Decided(best)
	c := l.encoder.Change(best)
	c.Reason = "the policy values this layout most"
	if c.Host < 0 {
		c.Reason = "the policy values no other layout more"
	}
	return c
}

// value returns what the network values a row at.
func (l *Learned) value(row int) float32 {
	copy(l.row, l.observation[:Shared])
	copy(l.row[Shared:], l.observation[Shared+row*Own:][:Own])
	var out [1]float32
	l.network.Forward(out[:], l.row, l.scratch)
	return out[0]
}
