// Package policy holds the ways to choose a variant: fixed, by thresholds on
// the load, by predicted latency, and learned. Each is read-only once made,
// allocates nothing when it decides, and leaves every buffer to its caller.
//
// Variants are ordered from the quickest to the best, as a scenario lists
// them; rules that step down or up follow that order.
package policy

import (
	"fmt"

	"gearshift/router/fleet"
)

// Rule is a policy that is written down rather than learned: what [Parse]
// makes. It satisfies router.Policy and router.Matcher.
type Rule interface {
	// Name is the reference that Parse makes an equal rule of.
	Name() string
	Scratch() int
	Decide(v *fleet.View, r *fleet.Request, scratch []float32) int
	Match(t *fleet.Table) error
}

// nearest is the variant itself if it is available, else the nearest smaller
// one that is, else the nearest larger one, else −1. Smaller goes first
// because a request that cannot have its variant mostly meets a loaded fleet.
func nearest(v *fleet.View, variant int) int {
	for m := variant; m >= 0; m-- {
		if v.VariantAvailable(m) {
			return m
		}
	}
	for m := variant + 1; m < len(v.Table.Variants); m++ {
		if v.VariantAvailable(m) {
			return m
		}
	}
	return -1
}

func matchVariants(t *fleet.Table, want int) error {
	if got := len(t.Variants); got != want {
		return fmt.Errorf("it was made for %d variants, the fleet has %d", want, got)
	}
	return nil
}

// named is the name of a rule that needs no memory of its own.
type named string

// Name is the reference that [Maker.Parse] makes an equal rule of, with all its parameters.
func (n named) Name() string { return string(n) }

// Scratch is zero.
func (n named) Scratch() int { return 0 }
