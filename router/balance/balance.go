// Package balance holds the ways to choose a replica once the variant is
// known. Each is pure: chance comes in as an argument, and nothing is kept
// between calls.
package balance

import (
	"fmt"
	"math/bits"

	"gearshift/router/fleet"
	"gearshift/router/profile"
)

// Balancer is what [Make] returns; it satisfies router.Balancer.
type Balancer interface {
	Name() string
	Pick(v *fleet.View, r *fleet.Request, variant int, random uint64) int
}

// Forms is how a scenario's serving.balancer names a balancer.
const Forms = "smallest-batch, smallest-fitting, least-harm, least-work, power-of-two and power-of-k:K"

// Known is what balancers use in addition to the view. Those that use what is missing
// do without.
type Known struct {
	// Profiles are by replica index.
	Profiles []*profile.Profile
	// Context is the mean number of tokens that a running request holds, Output that
	// which it produces.
	Context, Output float64
}

// Make is the balancer of a scenario's serving.balancer, one of the [Forms].
func Make(name string, k Known) (Balancer, error) {
	if b, ok, err := parsePowerOfK(name); ok {
		return b, err
	}
	for _, b := range []Balancer{SmallestBatch{}, SmallestFitting{}, LeastHarm(k), LeastWork(k), PowerOfK{K: 2}} {
		if b.Name() == name {
			return b, nil
		}
	}
	return nil, fmt.Errorf("no balancer %q; the balancers are %s", name, Forms)
}

// below maps a uniform 64-bit number to one in [0, n), by multiplication: the
// probabilities differ by less than n/2⁶⁴.
func below(random uint64, n int) int {
	high, _ := bits.Mul64(random, uint64(n))
	return int(high)
}

// eligible reports whether a replica is available with at most so many requests
// in flight.
func eligible(v *fleet.View, replica int, most int32) bool {
	return v.InFlight[replica] <= most && v.Available(replica)
}

// count is the number of the variant's eligible replicas.
func count(v *fleet.View, variant int, most int32) int {
	var n int
	for _, i := range v.ReplicasOf(variant) {
		if eligible(v, i, most) {
			n++
		}
	}
	return n
}

// nth is the n-th eligible replica of the variant, counted from zero, or −1.
func nth(v *fleet.View, variant int, most int32, n int) int {
	for _, i := range v.ReplicasOf(variant) {
		if !eligible(v, i, most) {
			continue
		}
		if n == 0 {
			return i
		}
		n--
	}
	return -1
}

// pick is the variant's available replica that comes first in the order, any of
// equals by the random number, or −1 if none is available.
func pick(v *fleet.View, variant int, random uint64, compare func(v *fleet.View, a, b int) int) int {
	best, ties := first(v, variant, compare)
	return draw(v, variant, best, ties, random, compare)
}

// draw is any of those that come first with best, by the random number.
func draw(v *fleet.View, variant, best, ties int, random uint64, compare func(v *fleet.View, a, b int) int) int {
	if ties < 2 {
		return best
	}
	n := below(random, ties)
	for _, i := range v.ReplicasOf(variant) {
		if !v.Available(i) || compare(v, i, best) != 0 {
			continue
		}
		if n == 0 {
			return i
		}
		n--
	}
	return best
}

// first is an available replica of the variant that comes first in the order, and how
// many come there with it; −1 and 0 if none is available.
func first(v *fleet.View, variant int, compare func(v *fleet.View, a, b int) int) (best, ties int) {
	best = -1
	for _, i := range v.ReplicasOf(variant) {
		if !v.Available(i) {
			continue
		}
		order := -1
		if best >= 0 {
			order = compare(v, i, best)
		}
		if order < 0 {
			best, ties = i, 0
		}
		if order <= 0 {
			ties++
		}
	}
	return best, ties
}
