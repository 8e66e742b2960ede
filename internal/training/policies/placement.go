package policies

import (
	"encoding/json"
	"errors"
	"fmt"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/router/placement/layouts"
)

// PlacementGain compares a policy of placement with another on held-out seeds, in shares of a request's
// utility.
type PlacementGain struct {
	Over string              `json:"over"`
	By   evaluation.Interval `json:"by"`
}

// Placement loads the policy of placement that ref names. It returns what makes a chooser for each episode or router.
func (s *Source) Placement(ref string) (func() layouts.Rule, checkpoints.Entry, error) {
	parsed, err := StoredRef(ref)
	if err != nil {
		return nil, checkpoints.Entry{}, err
	}
	c, entry, err := s.Store.Get(parsed)
	if err != nil {
		return nil, entry, err
	}
	p := c.Meta.Placement
	switch {
	case p == nil:
		return nil, entry, errors.New("it routes requests; gearshift train --placement makes a policy that decides which sizes are loaded")
	case p.Version != layouts.LearnedVersion:
		return nil, entry, fmt.Errorf("it observes version %d of what is known of layouts, this gearshift version %d; train it again", p.Version, layouts.LearnedVersion)
	}
	if _, err := layouts.NewLearned(c.Network); err != nil {
		return nil, entry, err
	}
	return func() layouts.Rule {
		r, _ := layouts.NewLearned(c.Network) // as before
		return r
	}, entry, nil
}

// Placing prepares what decides about layouts in simulations of the scenario: the policy of ref, of the flag
// --placement, or if it is empty that of serving.placement.policy. A rule may be given in its place.
func Placing(s *scenario.Scenario, store *checkpoints.Store, ref string) error {
	source := "--placement"
	if ref == "" {
		ref, source = s.PlacementPolicy(), "serving.placement.policy"
	}
	if ref == "" {
		return nil
	}
	if !s.Places() {
		return fmt.Errorf("%s %s: nothing decides about layouts in %s; want serving.placement in it", source, ref, s.Name)
	}
	if r, err := layouts.Parse(ref); err == nil {
		s.Chooser = func() layouts.Rule {
			r, _ = layouts.Parse(ref) // rules may have a state
			return r
		}
		return nil
	}
	choose, _, err := (&Source{Store: store}).Placement(ref)
	if err != nil {
		return fmt.Errorf("%s %s: %w", source, ref, err)
	}
	s.Chooser = choose
	return nil
}

// PlacementGains returns what a stored policy of placement gained; nil if it has no comparison that this version can read.
func PlacementGains(entry checkpoints.Entry) (gains []PlacementGain) {
	if json.Unmarshal(entry.Meta.Evaluation, &gains) != nil {
		return nil
	}
	return gains
}

// admitPlacement returns an error unless a policy of placement gains over all that it was compared with, by more than
// chance.
func admitPlacement(entry checkpoints.Entry) error {
	gains := PlacementGains(entry)
	if len(gains) == 0 {
		return fmt.Errorf("cannot promote %s: it has no stored comparison with rules that place; train it again with this version, or give --force and a --reason", entry.Ref())
	}
	for _, g := range gains {
		if g.By.Lo <= 0 {
			return fmt.Errorf("cannot promote %s: on held-out seeds it gains %.4f (%.4f to %.4f) over %s, which is not more than chance; train longer, keep the rule, or give --force and a --reason",
				entry.Ref(), g.By.Mean, g.By.Lo, g.By.Hi, g.Over)
		}
	}
	return nil
}
