package policies

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

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
	if c.Meta.Placement == nil {
		return nil, entry, errors.New("it routes requests; gearshift train --placement makes a policy that decides which sizes are loaded")
	}
	if err := sameObservation(c.Meta.Placement); err != nil {
		return nil, entry, err
	}
	if _, err := layouts.NewLearned(c.Network); err != nil {
		return nil, entry, err
	}
	return func() layouts.Rule {
		r, _ := layouts.NewLearned(c.Network) // as before
		return r
	}, entry, nil
}

// sameObservation returns an error unless a policy of placement observes what this version of the program does.
func sameObservation(p *checkpoints.Placement) error {
	if p.Version != layouts.LearnedVersion {
		return fmt.Errorf("it observes version %d of what is known of layouts, this gearshift version %d; train it again", p.Version, layouts.LearnedVersion)
	}
	return nil
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
	_, fault := layouts.Parse(ref)
	if fault == nil {
		s.Chooser = func() layouts.Rule {
			r, _ := layouts.Parse(ref) // rules may have a state
			return r
		}
		return nil
	}
	if kind, _, _ := strings.Cut(ref, ":"); kind == "worth" || kind == "bands" {
		return fmt.Errorf("%s %s: %w", source, ref, fault)
	}
	choose, _, err := (&Source{Store: store}).Placement(ref)
	if err != nil {
		return fmt.Errorf("%s %s: no rule (want %s), and no stored policy: %w", source, ref, layouts.Rules, err)
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

// LeastGain returns the comparison of a stored policy of placement that decides whether it is admitted: the one whose
// interval begins lowest. It returns false if there is no comparison that this version can read.
func LeastGain(entry checkpoints.Entry) (PlacementGain, bool) {
	gains := PlacementGains(entry)
	if len(gains) == 0 {
		return PlacementGain{}, false
	}
	return slices.MinFunc(gains, func(a, b PlacementGain) int { return cmp.Compare(a.By.Lo, b.By.Lo) }), true
}

// Word returns the gain in the words of [evaluation.Verdict].
func (g PlacementGain) Word() string { return evaluation.Verdict{Margin: g.By}.Word() }

// admitPlacement returns an error unless a policy of placement gains over all that it was compared with, by more than
// chance, and this version of the program can use it.
func admitPlacement(entry checkpoints.Entry) error {
	if err := sameObservation(entry.Meta.Placement); err != nil {
		return fmt.Errorf("%s is refused: %w", entry.Ref(), err)
	}
	g, ok := LeastGain(entry)
	if !ok {
		return fmt.Errorf("%s is refused: it has no stored comparison with rules that place; train it again with this version", entry.Ref())
	}
	if g.By.Lo <= 0 {
		return fmt.Errorf("%s is refused: on held-out seeds it gains %.4f (%.4f to %.4f) over %s, which is not more than chance; train longer, or keep the rule",
			entry.Ref(), g.By.Mean, g.By.Lo, g.By.Hi, g.Over)
	}
	return nil
}
