// Package tiers divides traffic among tiers: groups of hosts of one kind, or one contract, each
// with connections of its own and no balancer above them. Shares begin with what the tiers can
// compute, and a small controller corrects them by what their hosts report.
package tiers

import (
	"fmt"
	"math"

	"gearshift/internal/faults"
)

// Tier is a group of hosts.
type Tier struct {
	Name string
	// Compute is what its hosts compute together, in any unit that all tiers share.
	Compute float64
}

// Shares returns the part of the traffic that each tier should have: that of its compute, not of
// its hosts. A tier without any gets nothing, and all get the same where none has any.
func Shares(tiers []Tier) []float64 {
	shares := make([]float64, len(tiers))
	for i, t := range tiers {
		shares[i] = t.Compute
	}
	normalise(shares)
	return shares
}

// normalise scales numbers so that their sum is 1.
func normalise(shares []float64) {
	sum := 0.0
	for _, x := range shares {
		sum += x
	}
	for i := range shares {
		if sum > 0 {
			shares[i] /= sum
		} else {
			shares[i] = 1 / float64(len(shares))
		}
	}
}

// validate returns an error that names every wrong tier.
func validate(tiers []Tier) error {
	var found faults.List
	found.If(len(tiers) < 2, "%d tiers; want at least 2", len(tiers))
	names := map[string]bool{}
	for _, t := range tiers {
		found.If(t.Name == "" || names[t.Name], "a tier named %q; want names that differ", t.Name)
		found.If(!(t.Compute > 0) || math.IsInf(t.Compute, 1), "tier %q: a compute of %v; want a number above 0", t.Name, t.Compute)
		names[t.Name] = true
	}
	if err := found.Err(); err != nil {
		return fmt.Errorf("cannot share traffic among tiers: %w", err)
	}
	return nil
}
