package policy

import (
	"fmt"

	"gearshift/router/fleet"
)

// Static always chooses one variant; while that is unavailable, the nearest
// smaller one that is available, and if there is none, the nearest larger.
type Static struct {
	variant  int
	variants int
	named
}

// NewStatic makes the rule for the variant with this index in t.
func NewStatic(t *fleet.Table, variant int) (*Static, error) {
	if variant < 0 || variant >= len(t.Variants) {
		return nil, fmt.Errorf("no variant %d; the fleet has %d", variant, len(t.Variants))
	}
	return &Static{variant: variant, variants: len(t.Variants), named: named("static:" + t.Variants[variant].Name)}, nil
}

// Variant is the index of the variant that the rule chooses.
func (s *Static) Variant() int { return s.variant }

// Match checks the variant's name and the number of variants.
func (s *Static) Match(t *fleet.Table) error {
	if err := matchVariants(t, s.variants); err != nil {
		return err
	}
	if name := "static:" + t.Variants[s.variant].Name; name != s.Name() {
		return fmt.Errorf("variant %d of the fleet is %q", s.variant, t.Variants[s.variant].Name)
	}
	return nil
}

// Decide implements router.Policy.
func (s *Static) Decide(v *fleet.View, _ *fleet.Request, _ []float32) int {
	return nearest(v, s.variant)
}
