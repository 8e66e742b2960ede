package policy

import (
	"fmt"
	"math"

	"gearshift/router/fleet"
	"gearshift/router/nn"
	"gearshift/router/observation"
)

// Placing is a learned policy that chooses the replica itself: the available one
// with the highest output of a network, which values the replicas one by one.
// Equal values go to the first in the table. It satisfies router.Placer.
//
// Nothing in it counts the replicas, so one policy routes for a fleet of any
// number of hosts; [observation.Spec.Match] says what must stay.
//
// Its scratch holds, in this order, the network's inputs, its output, the
// network's own scratch and a value for each variant.
type Placing struct {
	name    string
	encoder *observation.Encoder
	net     ValueFunction
	shared  int // inputs that all replicas have in common
	sizes   int // variants
}

// Placing is [Maker.Learned] for a Spec with candidates. It has no advice that could
// stand in beyond what training has seen, so it need not know that.
func (m *Maker) Placing(name string, s observation.Spec, net ValueFunction) (*Placing, error) {
	encoder, err := m.Encoder(s)
	if err != nil {
		return nil, fmt.Errorf("cannot load policy %q: %w", name, err)
	}
	if !s.Places() {
		return nil, fmt.Errorf("cannot load policy %q: it values variants, not replicas", name)
	}
	if net.Inputs() != s.Inputs() || net.Outputs() != 1 {
		return nil, fmt.Errorf("cannot load policy %q: the network maps %d inputs to %d outputs, its observation has %d numbers for a replica, to be mapped to 1",
			name, net.Inputs(), net.Outputs(), s.Inputs())
	}
	if m, ok := net.(*nn.MLP); ok {
		net = m.Banded()
	}
	return &Placing{name: name, encoder: encoder, net: net, shared: s.Dim(), sizes: len(s.Variants)}, nil
}

// Doubtable makes it a router.Doubtable, as [Learned] is.
func (p *Placing) Doubtable() {}

// Name is the stored policy's "name@version".
func (p *Placing) Name() string { return p.name }

// Match checks the Spec against t.
func (p *Placing) Match(t *fleet.Table) error { return p.encoder.Match(t) }

// Scratch is the length of the layout above.
func (p *Placing) Scratch() int { return p.net.Inputs() + 1 + p.net.Scratch() + p.sizes }

// Decide implements router.Policy: it is the variant of what Place chooses.
func (p *Placing) Decide(v *fleet.View, r *fleet.Request, scratch []float32) int {
	if replica := p.Place(v, r, scratch); replica >= 0 {
		return v.Table.Replicas[replica].Variant
	}
	return -1
}

// Place implements router.Placer. It returns −1 also if the network's output for
// an available replica is not finite: then the weights are damaged, and no value
// can be trusted.
func (p *Placing) Place(v *fleet.View, r *fleet.Request, scratch []float32) int {
	in := p.net.Inputs()
	x, value, rest := scratch[:in], scratch[in:in+1], scratch[in+1:]
	p.encoder.EncodeFeatures(x[:p.shared], v, r)
	rows := p.encoder.Candidates(v, r)
	defer rows.Close()
	best, highest := -1, float32(0)
	for _, i := range v.Replicas() {
		if !v.Available(i) {
			continue
		}
		rows.Encode(x[p.shared:], i)
		p.net.Forward(value, x, rest)
		if !finite(value[0]) {
			return -1
		}
		if best < 0 || value[0] > highest {
			best, highest = i, value[0]
		}
	}
	return best
}

// Explain implements router.Explainer: of each variant the value of its best
// available replica, NaN if it has none.
func (p *Placing) Explain(v *fleet.View, r *fleet.Request, scratch []float32) (values []float32, why string) {
	in := p.net.Inputs()
	x, value, rest := scratch[:in], scratch[in:in+1], scratch[in+1:]
	values = scratch[len(scratch)-p.sizes:]
	for m := range values {
		values[m] = float32(math.NaN())
	}
	p.encoder.EncodeFeatures(x[:p.shared], v, r)
	rows := p.encoder.Candidates(v, r)
	defer rows.Close()
	why = byValue
	for _, i := range v.Replicas() {
		if !v.Available(i) {
			continue
		}
		rows.Encode(x[p.shared:], i)
		p.net.Forward(value, x, rest[:len(rest)-p.sizes])
		if !finite(value[0]) {
			why = damaged
		}
		if m := v.Table.Replicas[i].Variant; !(values[m] >= value[0]) {
			values[m] = value[0]
		}
	}
	return values, why
}
