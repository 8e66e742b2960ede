package policy

import (
	"fmt"

	"gearshift/router/fleet"
	"gearshift/router/observation"
	"gearshift/router/profile"
)

// Maker makes policies of what is known of a fleet.
type Maker struct {
	Table *fleet.Table
	// Profiles are by replica index of the table. Like the lengths and the balancer,
	// static and the thresholds do without.
	Profiles []*profile.Profile
	Lengths  Lengths
	// Balancer is what picks the replica once a rule has chosen the variant, for
	// the rules that predict what the request would meet there.
	Balancer Balancer
}

// Encoder makes the encoder of s, with the rule whose advice it contains, and what estimates
// how requests would fare.
func (m *Maker) Encoder(s observation.Spec) (*observation.Encoder, error) {
	var advisor observation.Advisor
	if ref := s.Advice(); ref != "" {
		rule, err := m.Parse(ref)
		if err != nil {
			return nil, err
		}
		advisor = rule
	}
	e, err := observation.NewEncoder(s, m.Table, advisor)
	ref := s.EstimateRule()
	if err != nil || ref == "" {
		return e, err
	}
	rule, err := m.Parse(ref)
	if err != nil {
		return nil, err
	}
	estimator, ok := rule.(observation.Estimator)
	if !ok {
		return nil, fmt.Errorf("the rule %s makes no estimates; want universal, with its parameters", ref)
	}
	return e, e.EstimateBy(estimator)
}

// Lengths is what a rule expects of a request whose output length it cannot
// know. In tokens.
type Lengths struct {
	// Context is the mean number of cached tokens of a running sequence.
	Context float64
	// Output is the mean output length. Zero is unknown: predictions then leave
	// out what follows from it.
	Output float64
	// Tasks are those of each task's requests, by task; empty where they are not known.
	Tasks []TaskLengths
}

// TaskLengths are the mean lengths of a task's requests in tokens, and their share of all requests.
type TaskLengths struct{ Prompt, Output, Share float64 }

// Balancer picks an available replica of the variant, or −1 if none is; see
// router.Balancer.
type Balancer interface {
	Pick(v *fleet.View, r *fleet.Request, variant int, random uint64) int
}

// Spread is a Balancer that is quicker to pick by several random numbers at once.
type Spread interface {
	// PickSpread is what Pick picks by four random numbers that are spread evenly: 0,
	// and a quarter, a half and three quarters of their range.
	PickSpread(v *fleet.View, r *fleet.Request, variant int) [4]int
}

// pickSpread is [Spread.PickSpread] of any Balancer.
func pickSpread(b Balancer, v *fleet.View, r *fleet.Request, variant int) (picked [4]int) {
	if s, ok := b.(Spread); ok {
		return s.PickSpread(v, r, variant)
	}
	for k := range picked {
		picked[k] = b.Pick(v, r, variant, uint64(k)<<62)
	}
	return picked
}
