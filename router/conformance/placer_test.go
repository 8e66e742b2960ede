package conformance

import (
	"testing"

	"gearshift/router/fleet"
)

// placerFunc is a policy that decides as first does, and places by a function.
type placerFunc func(v *fleet.View) int

func (placerFunc) Name() string { return "test" }
func (placerFunc) Scratch() int { return 1 }
func (placerFunc) Decide(v *fleet.View, r *fleet.Request, scratch []float32) int {
	return first(v, r, scratch)
}
func (p placerFunc) Place(v *fleet.View, _ *fleet.Request, _ []float32) int { return p(v) }

// firstReplica is the first available replica of the first available variant.
func firstReplica(v *fleet.View) int {
	if m := first(v, nil, nil); m >= 0 {
		for _, i := range v.Table.ReplicasOf(m) {
			if v.Available(i) {
				return i
			}
		}
	}
	return -1
}

// TestPlacerKitCatches is TestPolicyKitCatches for placers.
func TestPlacerKitCatches(t *testing.T) {
	table := Fleet(8)
	Policy(t, table, placerFunc(firstReplica))
	for what, place := range map[string]placerFunc{
		"gives up":          func(*fleet.View) int { return -1 },
		"is out of range":   func(*fleet.View) int { return 12 },
		"takes what is not": func(*fleet.View) int { return 0 },
		"contradicts itself": func(v *fleet.View) int {
			for i := len(table.Replicas) - 1; i >= 0; i-- {
				if v.Available(i) {
					return i
				}
			}
			return -1
		},
		"changes the view": func(v *fleet.View) int { v.Rate++; return firstReplica(v) },
		"allocates":        func(v *fleet.View) int { sink = make([]int, 1); return firstReplica(v) },
	} {
		if policyPlacing(table, place) == nil {
			t.Errorf("a placer that %s passes", what)
		}
	}
}
