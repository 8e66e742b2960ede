package balance

import "gearshift/router/fleet"

// SmallestBatch picks the available replica with the fewest requests in
// flight, waiting and running (LBE-8). The paper leaves ties open; here the
// random number chooses among them uniformly, so that an idle fleet does not
// herd onto its first host.
type SmallestBatch struct{}

// Name is "smallest-batch".
func (SmallestBatch) Name() string { return "smallest-batch" }

// Pick implements router.Balancer.
func (SmallestBatch) Pick(v *fleet.View, _ *fleet.Request, variant int, random uint64) int {
	shortest := int32(v.Shortest(variant))
	if shortest < 0 {
		return -1
	}
	return nth(v, variant, shortest, below(random, count(v, variant, shortest)))
}
