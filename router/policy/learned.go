package policy

import (
	"fmt"
	"math"
	"slices"

	"gearshift/router/fleet"
	"gearshift/router/nn"
	"gearshift/router/observation"
)

// Trust is how far the values of a network are to be trusted against the advice of
// its observation.
type Trust struct {
	// Seen is the largest value of each input in training: beyond it the values mean
	// nothing, and the advice is taken. Nil if it is not known.
	Seen []float32
	// Caution is of a network that is several, as [nn.Stack] makes them: what is not
	// advised must be worth more than what is by so many times the standard deviation of
	// what the several say of that.
	Caution float64
}

// Learned chooses the available variant with the highest value
// Q(observation, variant), as training estimated it: an output of a network, or the mean
// of the outputs of several. Equal values go to the smaller variant. Where its
// observation contains a rule's advice, it deviates from that as far as [Trust] allows.
//
// Its scratch holds, in this order, the observation (Dim numbers), the outputs
// (one per variant of each network), the values (one per variant) and the network's own
// scratch.
type Learned struct {
	name    string
	encoder *observation.Encoder
	net     ValueFunction
	trust   Trust // zero where the observation contains no advice
}

// Learned makes the policy that net is for the maker's fleet. It returns an
// error if the network's inputs or outputs are not those of the Spec, or if the
// Spec is not the fleet's ([observation.Spec.Match]). Name is what Name returns,
// "name@version". Neither the network nor what is trusted may change while the policy is
// in use.
func (m *Maker) Learned(name string, s observation.Spec, net ValueFunction, trust Trust) (*Learned, error) {
	encoder, err := m.Encoder(s)
	if err != nil {
		return nil, fmt.Errorf("cannot load policy %q: %w", name, err)
	}
	if s.Places() {
		return nil, fmt.Errorf("cannot load policy %q: it values replicas, not variants", name)
	}
	if variants := len(s.Variants); net.Inputs() != s.Dim() || variants == 0 || net.Outputs()%variants != 0 {
		return nil, fmt.Errorf("cannot load policy %q: the network maps %d inputs to %d outputs, its observation has %d numbers for %d variants",
			name, net.Inputs(), net.Outputs(), s.Dim(), len(s.Variants))
	}
	if seen := len(trust.Seen); seen != 0 && seen != s.Dim() {
		return nil, fmt.Errorf("cannot load policy %q: the range of %d inputs is known, its observation has %d", name, seen, s.Dim())
	}
	if m, ok := net.(*nn.MLP); ok {
		net = m.Banded()
	}
	p := &Learned{name: name, encoder: encoder, net: net}
	if s.Advice() != "" {
		p.trust = trust
	}
	return p, nil
}

// Name is the stored policy's "name@version".
func (p *Learned) Name() string { return p.name }

// Doubtable makes it a router.Doubtable: it was trained on forecasts.
func (p *Learned) Doubtable() {}

// Spec is the Spec of the policy's observations.
func (p *Learned) Spec() observation.Spec { return p.encoder.Spec() }

// Match checks the Spec, and the rule whose advice it contains, against t.
func (p *Learned) Match(t *fleet.Table) error { return p.encoder.Match(t) }

// Scratch is the length of the layout above.
func (p *Learned) Scratch() int {
	return p.net.Inputs() + p.net.Outputs() + len(p.Spec().Variants) + p.net.Scratch()
}

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

// beyond reports whether an observation has a number above all seen in training.
func (p *Learned) beyond(x []float32) bool {
	for i, most := range p.trust.Seen {
		if x[i] > most {
			return true
		}
	}
	return false
}

// Reasons of choices, as Explain returns them.
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

// Values encodes the view and the request and returns the value of
// each variant: a slice of scratch, whose length is at least Scratch.
func (p *Learned) Values(v *fleet.View, r *fleet.Request, scratch []float32) []float32 {
	in, out, variants := p.net.Inputs(), p.net.Outputs(), len(v.Table.Variants)
	x, outputs, rest := scratch[:in], scratch[in:in+out], scratch[in+out:]
	p.encoder.Encode(x, v, r)
	p.net.Forward(outputs, x, rest[variants:])
	if out == variants {
		return outputs
	}
	values := rest[:variants]
	advised := slices.Index(x[:variants], 1)
	if p.trust.Caution == 0 {
		advised = -1
	}
	for m := range values {
		values[m] = p.trust.value(outputs, variants, m, advised)
	}
	return values
}

// value is the mean of what several networks say of a variant, less what is due to
// caution if another one is advised; advised is −1 if none is. Outputs are those of one
// network after those of the other.
func (t *Trust) value(outputs []float32, variants, variant, advised int) float32 {
	var sum, lead, squares float64
	for i := 0; i < len(outputs); i += variants {
		sum += float64(outputs[i+variant])
		if advised >= 0 {
			d := float64(outputs[i+variant]) - float64(outputs[i+advised])
			lead += d
			squares += float64(d * d)
		}
	}
	n := float64(len(outputs) / variants)
	mean := lead / n
	variance := squares/n - float64(mean*mean)
	return float32(sum/n - float64(t.Caution*math.Sqrt(max(0, variance))))
}
