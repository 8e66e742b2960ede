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

// bestSmaller returns the greatest quality of the request's answers by the available
// variants that are smaller than this one; 0 without any.
func bestSmaller(v *fleet.View, r *fleet.Request, variant int) (best float64) {
	for m := range variant {
		if q := v.Table.Quality(r, m); q > best && v.VariantAvailable(m) {
			best = q
		}
	}
	return best
}

// noBetter reports whether the variant is predicted no better for the request than a
// smaller one that is available. Without a prediction none is: a rule that steps up by
// size then takes the order of the variants for that of their qualities.
func noBetter(v *fleet.View, r *fleet.Request, variant int) bool {
	if !r.Predicted.Known {
		return false
	}
	for m := range variant {
		if v.Table.Quality(r, m) >= v.Table.Quality(r, variant) && v.VariantAvailable(m) {
			return true
		}
	}
	return false
}

// noLarger returns the variant that is chosen, or in its place the best of the smaller
// ones that are available, where that is predicted to be as good for the request.
func noLarger(v *fleet.View, r *fleet.Request, chosen int) int {
	if !r.Predicted.Known {
		return chosen
	}
	best := chosen
	for m := chosen - 1; m >= 0; m-- {
		if v.Table.Quality(r, m) >= v.Table.Quality(r, best) && v.VariantAvailable(m) {
			best = m
		}
	}
	return best
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
