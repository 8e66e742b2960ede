package balance

import (
	"cmp"
	"math"

	"gearshift/router/fleet"
)

// grain is the difference of forecast misses below which two replicas count as
// equals: forecasts are not that exact.
const grain = 0.02

// LeastHarm picks, among the replicas with room in their KV cache, the one where
// the request is forecast to add the fewest misses: its own, and those of the
// requests beside it, on the replica and on its host. Equals go by
// [SmallestFitting], and so do all where none has room or nothing is forecast.
//
// Large models, which neighbours slow beyond their deadline, thus come to have
// hosts of their own while there is room.
type LeastHarm struct{}

// Name is "least-harm".
func (LeastHarm) Name() string { return "least-harm" }

// Pick implements router.Balancer.
func (LeastHarm) Pick(v *fleet.View, _ *fleet.Request, variant int, random uint64) int {
	return pick(v, variant, random, compareHarm)
}

func compareHarm(v *fleet.View, a, b int) int {
	if len(v.Forecasts) > 0 && v.KVUse(a) < crowded && v.KVUse(b) < crowded {
		misses := func(i int) float64 { return math.Round(v.Forecasts[i].Misses / grain) }
		if order := cmp.Compare(misses(a), misses(b)); order != 0 {
			return order
		}
	}
	return compareFit(v, a, b)
}
