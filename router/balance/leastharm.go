package balance

import (
	"cmp"
	"math"

	"gearshift/router/fleet"
)

const (
	// grain is the difference of forecast misses below which two replicas count
	// as equals: forecasts are not that exact.
	grain = 0.02
	// roomy is the share of a KV cache up to which there is room to choose by
	// harm. Beyond, what a host spared for its large model would cost the others
	// is more than what it saves.
	roomy = 0.6
)

// LeastHarm picks, among the replicas with ample room in their KV cache, the one
// where the request is forecast to add the fewest misses: its own, and those of
// the requests beside it, on the replica and on its host. Equals go by
// [SmallestFitting], and so do all where none has ample room or nothing is
// forecast.
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
	useA, useB := v.KVUse(a), v.KVUse(b)
	switch {
	case len(v.Forecasts) == 0 || useA >= roomy && useB >= roomy:
		return compareFit(v, a, b)
	case useA >= roomy || useB >= roomy:
		return cmp.Compare(useA, useB)
	}
	misses := func(i int) float64 { return math.Round(v.Forecasts[i].Misses / grain) }
	return cmp.Or(cmp.Compare(misses(a), misses(b)), compareFit(v, a, b))
}
