package policy

import (
	"gearshift/router/fleet"
	"gearshift/router/nn"
	"gearshift/router/observation"
)

// Network is a learned policy of either kind: [Learned] or [Placing]. It
// satisfies router.Policy and router.Matcher.
type Network interface {
	Name() string
	Scratch() int
	Decide(v *fleet.View, r *fleet.Request, scratch []float32) int
	Match(t *fleet.Table) error
}

// Network makes the kind of policy that the Spec says; see [Maker.Learned] and
// [Maker.Placing], which has no use for what training has seen.
func (m *Maker) Network(name string, s observation.Spec, net *nn.MLP, seen []float32) (Network, error) {
	var n Network
	var err error
	if s.Places() {
		n, err = m.Placing(name, s, net)
	} else {
		n, err = m.Learned(name, s, net, seen)
	}
	if err != nil {
		return nil, err // and no interface over a nil pointer
	}
	return n, nil
}
