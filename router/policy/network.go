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

// NewNetwork makes the kind of policy that the Spec says; see [NewLearned] and
// [NewPlacing].
func NewNetwork(name string, s observation.Spec, net *nn.MLP, t *fleet.Table) (Network, error) {
	var n Network
	var err error
	if s.Places() {
		n, err = NewPlacing(name, s, net, t)
	} else {
		n, err = NewLearned(name, s, net, t)
	}
	if err != nil {
		return nil, err // and no interface over a nil pointer
	}
	return n, nil
}
