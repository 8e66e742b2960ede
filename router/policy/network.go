package policy

import (
	"gearshift/router/fleet"
	"gearshift/router/observation"
)

// ValueFunction is what a learned policy needs of a network, whatever runs it: an
// [nn.MLP] or, say, another program's engine. Goroutines share it.
type ValueFunction interface {
	// Inputs and Outputs are the lengths of an input and of an output.
	Inputs() int
	Outputs() int
	// Scratch is the length of the scratch buffer that Forward needs.
	Scratch() int
	// Forward writes the values of x into dst, without allocation. The buffers
	// are the caller's. What cannot be computed is NaN.
	Forward(dst, x, scratch []float32)
}

// Network is a learned policy of either kind: [Learned] or [Placing]. It
// satisfies router.Policy and router.Matcher.
type Network interface {
	Name() string
	Scratch() int
	Decide(v *fleet.View, r *fleet.Request, scratch []float32) int
	Match(t *fleet.Table) error
}

// Network makes the kind of policy that the Spec says; see [Maker.Learned] and
// [Maker.Placing], which knows no advice.
func (m *Maker) Network(name string, s observation.Spec, net ValueFunction, trust Trust) (Network, error) {
	var n Network
	var err error
	if s.Places() {
		n, err = m.Placing(name, s, net)
	} else {
		n, err = m.Learned(name, s, net, trust)
	}
	if err != nil {
		return nil, err // and no interface over a nil pointer
	}
	return n, nil
}
