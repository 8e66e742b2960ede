package policy

import (
	"fmt"
	"math"

	"gearshift/router/fleet"
	"gearshift/router/nn"
	"gearshift/router/observation"
)

// Learned chooses the available variant with the highest output of a network:
// the value Q(observation, variant) that training estimated. Equal values go
// to the smaller variant.
//
// Where its observation tells a rule's advice, the advice is taken if any number
// observed is above all that training has seen: there the values mean nothing.
//
// Its scratch holds, in this order, the observation (Dim numbers), the values
// (one per variant) and the network's own scratch.
type Learned struct {
	name    string
	encoder *observation.Encoder
	net     ValueFunction
	seen    []float32 // the largest of each input in training; nil where no advice stands in
}

// Learned makes the policy that net is for the maker's fleet. It returns an
// error if the network's inputs or outputs are not those of the Spec, or if the
// Spec is not the fleet's ([observation.Spec.Match]). Name is what Name returns,
// "name@version". Seen is the largest value of each input in training, nil if it
// is not known. Neither it nor the network may change while the policy is in use.
func (m *Maker) Learned(name string, s observation.Spec, net ValueFunction, seen []float32) (*Learned, error) {
	encoder, err := m.Encoder(s)
	if err != nil {
		return nil, fmt.Errorf("cannot load policy %q: %w", name, err)
	}
	if s.Places() {
		return nil, fmt.Errorf("cannot load policy %q: it values replicas, not variants", name)
	}
	if net.Inputs() != s.Dim() || net.Outputs() != len(s.Variants) {
		return nil, fmt.Errorf("cannot load policy %q: the network maps %d inputs to %d outputs, its observation has %d numbers for %d variants",
			name, net.Inputs(), net.Outputs(), s.Dim(), len(s.Variants))
	}
	if len(seen) != 0 && len(seen) != s.Dim() {
		return nil, fmt.Errorf("cannot load policy %q: the range of %d inputs is known, its observation has %d", name, len(seen), s.Dim())
	}
	if m, ok := net.(*nn.MLP); ok {
		net = m.Banded()
	}
	p := &Learned{name: name, encoder: encoder, net: net}
	if s.Advice() != "" {
		p.seen = seen
	}
	return p, nil
}

// Name is the stored policy's "name@version".
func (p *Learned) Name() string { return p.name }

// Spec is the Spec of the policy's observations.
func (p *Learned) Spec() observation.Spec { return p.encoder.Spec() }

// Match checks the Spec, and the rule whose advice it tells, against t.
func (p *Learned) Match(t *fleet.Table) error { return p.encoder.Match(t) }

// Scratch is the length of the layout above.
func (p *Learned) Scratch() int { return p.net.Inputs() + p.net.Outputs() + p.net.Scratch() }

// Decide implements router.Policy. It returns −1 also if the network's output
// is not finite: then the weights are damaged, and no value can be trusted.
func (p *Learned) Decide(v *fleet.View, r *fleet.Request, scratch []float32) int {
	values := p.Values(v, r, scratch)
	if p.beyond(scratch) {
		values = scratch[:len(values)] // the advice, with which the observation begins
	}
	best := -1
	for m, q := range values {
		if !finite(q) {
			return -1
		}
		if (best < 0 || q > values[best]) && v.VariantAvailable(m) {
			best = m
		}
	}
	return best
}

func finite(q float32) bool { return !math.IsNaN(float64(q)) && !math.IsInf(float64(q), 0) }

// beyond says whether an observation has a number above all seen in training.
func (p *Learned) beyond(x []float32) bool {
	for i, most := range p.seen {
		if x[i] > most {
			return true
		}
	}
	return false
}

// What Explain says of a choice.
const (
	byValue  = "the highest value"
	byAdvice = "beyond what training has seen: the advice rules"
	damaged  = "a value is not finite: the weights are damaged"
)

// Explain implements router.Explainer: the values of the variants, which do not
// decide where the advice stands in.
func (p *Learned) Explain(v *fleet.View, r *fleet.Request, scratch []float32) (values []float32, why string) {
	values = p.Values(v, r, scratch)
	if p.beyond(scratch) {
		return values, byAdvice
	}
	for _, q := range values {
		if !finite(q) {
			return values, damaged
		}
	}
	return values, byValue
}

// Values encodes the view and the request and returns the network's value of
// each variant: a slice of scratch, whose length is at least Scratch.
func (p *Learned) Values(v *fleet.View, r *fleet.Request, scratch []float32) []float32 {
	in, out := p.net.Inputs(), p.net.Outputs()
	x, values := scratch[:in], scratch[in:in+out]
	p.encoder.Encode(x, v, r)
	p.net.Forward(values, x, scratch[in+out:])
	return values
}
