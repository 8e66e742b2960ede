// Package supervised learns classifiers of several modalities from labelled examples. A
// network has an encoder for each modality, and its logits are the sum of those of the
// modalities that an example has (late fusion). Every subset of the modalities is trained
// alike, so that one network answers with any of them.
package supervised

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gearshift/rl/fused"
	"gearshift/router/nn"
)

// Encoder is the shape of one modality's part of a network. An example of the modality
// is rows of features, one for each position. Layers are applied to each position alone,
// then the mean of each group of positions is taken, and the groups together are the
// input of the layers after that. The last of these are the logits; all others are
// rectified.
type Encoder struct {
	Name   string
	Inputs int   // features of a position
	Each   []int // outputs of the layers of each position
	Groups []int // the group of each position
	Whole  []int // outputs of the layers of the groups together, except the logits
}

// Positions is how many an example has.
func (e *Encoder) Positions() int { return len(e.Groups) }

// Features is how many numbers an example has.
func (e *Encoder) Features() int { return len(e.Groups) * e.Inputs }

// sizes are the members of each group.
func (e *Encoder) sizes() (n []int) {
	for _, g := range e.Groups {
		for len(n) <= g {
			n = append(n, 0)
		}
		n[g]++
	}
	return n
}

// Layer is a dense layer, with weights of shape (in, out), row by row.
type Layer struct {
	In, Out         int
	Weights, Biases []float32
}

// Part is an encoder with its weights.
type Part struct {
	Encoder
	Layers []Layer // those of each position, then those of the groups together
	flat   []float32
}

// Network is the parts of all modalities.
type Network struct {
	Labels int
	Parts  []*Part
}

// New makes a network with weights drawn from random.
func New(encoders []Encoder, labels int, random *rand.Rand) (*Network, error) {
	n := &Network{Labels: labels}
	for _, e := range encoders {
		p, err := newPart(e, labels)
		if err != nil {
			return nil, fmt.Errorf("cannot make a network: encoder %s: %w", e.Name, err)
		}
		for _, l := range p.Layers {
			bound := math.Sqrt(6 / float64(l.In))
			for i := range l.Weights {
				l.Weights[i] = float32((2*random.Float64() - 1) * bound)
			}
		}
		n.Parts = append(n.Parts, p)
	}
	return n, nil
}

// newPart makes a part of zero weights.
func newPart(e Encoder, labels int) (*Part, error) {
	groups := e.sizes()
	switch {
	case e.Inputs < 1 || len(e.Each) < 1 || len(groups) < 1 || labels < 2:
		return nil, fmt.Errorf("%d features, %d layers of each position, %d positions, %d labels", e.Inputs, len(e.Each), len(e.Groups), labels)
	}
	for g, n := range groups {
		if n == 0 {
			return nil, fmt.Errorf("group %d has no position", g)
		}
	}
	p := &Part{Encoder: e}
	in := e.Inputs
	add := func(out int) {
		p.Layers = append(p.Layers, Layer{In: in, Out: out})
		in = out
	}
	for _, out := range e.Each {
		add(out)
	}
	in *= len(groups)
	for _, out := range e.Whole {
		add(out)
	}
	add(labels)
	p.flat = make([]float32, p.Parameters())
	rest := p.flat
	for i := range p.Layers {
		l := &p.Layers[i]
		w := l.In * l.Out
		l.Weights, l.Biases = rest[:w:w], rest[w:w+l.Out:w+l.Out]
		rest = rest[w+l.Out:]
	}
	return p, nil
}

// Parameters is how many weights and biases a part has.
func (p *Part) Parameters() (n int) {
	for _, l := range p.Layers {
		n += (l.In + 1) * l.Out
	}
	return n
}

// Parameters is how many weights and biases a network has.
func (n *Network) Parameters() (sum int) {
	for _, p := range n.Parts {
		sum += p.Parameters()
	}
	return sum
}

// Logits are those of examples with the modalities whose features are given; a part
// whose features are nil is left out.
func (n *Network) Logits(features [][]float32) []float32 {
	var sum []float32
	for i, x := range features {
		if x == nil {
			continue
		}
		part := n.Parts[i].logits(x)
		if sum == nil {
			sum = part
		} else {
			nn.AddRows(sum, part)
		}
	}
	return sum
}

func (p *Part) logits(x []float32) []float32 {
	rows := len(x) / p.Inputs
	for i, l := range p.Layers {
		if i == len(p.Each) {
			rows /= p.Positions()
			y := make([]float32, rows*l.In)
			newPooling(&p.Encoder).forward(y, x)
			x = y
		}
		y := make([]float32, rows*l.Out)
		fused.Forward(y, x, l.Weights, l.Biases, rows, i < len(p.Layers)-1)
		x = y
	}
	return x
}
