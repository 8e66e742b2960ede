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
// Its scratch holds, in this order, the observation (Dim numbers), the values
// (one per variant) and the network's own scratch.
type Learned struct {
	name    string
	encoder *observation.Encoder
	net     *nn.MLP
}

// NewLearned makes the policy that net is for the fleet t. It returns an error
// if the network's inputs or outputs are not those of the Spec, or if the Spec
// is not the fleet's ([observation.Spec.Match]). Name is what Name returns,
// "name@version". The network must not change while the policy is in use.
func NewLearned(name string, s observation.Spec, net *nn.MLP, t *fleet.Table) (*Learned, error) {
	encoder, err := observation.NewEncoder(s, t)
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
	return &Learned{name: name, encoder: encoder, net: net}, nil
}

// Name is the stored policy's "name@version".
func (p *Learned) Name() string { return p.name }

// Spec is the Spec of the policy's observations.
func (p *Learned) Spec() observation.Spec { return p.encoder.Spec() }

// Match checks the Spec against t.
func (p *Learned) Match(t *fleet.Table) error { return p.encoder.Spec().Match(t) }

// Scratch is the length of the layout above.
func (p *Learned) Scratch() int { return p.net.Inputs() + p.net.Outputs() + p.net.Scratch() }

// Decide implements router.Policy. It returns −1 also if the network's output
// is not finite: then the weights are damaged, and no value can be trusted.
func (p *Learned) Decide(v *fleet.View, r *fleet.Request, scratch []float32) int {
	values := p.Values(v, r, scratch)
	best := -1
	for m, q := range values {
		if q64 := float64(q); math.IsNaN(q64) || math.IsInf(q64, 0) {
			return -1
		}
		if (best < 0 || q > values[best]) && v.VariantAvailable(m) {
			best = m
		}
	}
	return best
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
