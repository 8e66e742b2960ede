package balance

import (
	"math"

	"gearshift/router/fleet"
)

// PowerOfTwo draws two distinct available replicas, each pair equally likely,
// and picks the one with fewer requests in flight; of equals, the one drawn
// first. When many routers share a fleet, it herds less than [SmallestBatch].
type PowerOfTwo struct{}

// Name is "power-of-two".
func (PowerOfTwo) Name() string { return "power-of-two" }

// Pick implements router.Balancer.
func (PowerOfTwo) Pick(v *fleet.View, _ *fleet.Request, variant int, random uint64) int {
	available := count(v, variant, math.MaxInt32)
	if available < 2 {
		return nth(v, variant, math.MaxInt32, 0)
	}
	// Each half of the random number, moved to the top, draws one. The second
	// is drawn from the others: from the first's place on, indices shift by one.
	a := below(random&^(1<<32-1), available)
	b := below(random<<32, available-1)
	if b >= a {
		b++
	}
	first, second := nth(v, variant, math.MaxInt32, a), nth(v, variant, math.MaxInt32, b)
	if v.InFlight[second] < v.InFlight[first] {
		return second
	}
	return first
}
