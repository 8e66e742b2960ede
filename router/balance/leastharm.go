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
	// filled is the share of full caches from which they are about to fill.
	filled = 0.6
	// even is the share of a KV cache up to which harm counts while all of them
	// are about to fill. Those that fill one after the other are as full in the
	// end, but hold requests of unlike age: in one they end while in the next
	// they still grow.
	even = 0.3
	// slow is the pace, as a share of the deadline, from which a replica counts as full where caches are of unlike sizes.
	slow = 0.75
)

// LeastHarm picks, among the replicas with room in their KV cache, the one
// where the request is forecast to add the fewest misses: its own, and those of
// the requests that run next to it, on the replica and on its host. [SmallestFitting]
// picks among equals, and among all where none has room or nothing is forecast.
//
// Large models, which neighbours slow beyond their deadline, thus come to have
// hosts of their own while there is room. Where more arrives than leaves room, by
// what is [Known], that ends early, so that the caches fill evenly.
type LeastHarm Known

// Name is "least-harm".
func (LeastHarm) Name() string { return "least-harm" }

// Pick implements router.Balancer.
func (b LeastHarm) Pick(v *fleet.View, r *fleet.Request, variant int, random uint64) int {
	room := b.room(v, r, variant)
	return pick(v, variant, random, func(v *fleet.View, i, j int) int { return compareHarm(v, i, j, room) })
}

// PickSpread implements policy.Spread.
func (b LeastHarm) PickSpread(v *fleet.View, r *fleet.Request, variant int) (picked [4]int) {
	room := b.room(v, r, variant)
	compare := func(v *fleet.View, i, j int) int { return compareHarm(v, i, j, room) }
	best, ties := first(v, variant, compare)
	for k := range picked {
		picked[k] = draw(v, variant, best, ties, uint64(k)<<62, compare)
	}
	return picked
}

// room is the share of a KV cache up to which harm counts; 0 where nothing is forecast.
func (b LeastHarm) room(v *fleet.View, r *fleet.Request, variant int) float64 {
	switch {
	case len(v.Forecasts) == 0:
		return 0
	case b.filling(v, r, variant):
		return even
	}
	return crowded
}

// compareHarm orders two replicas by harm where their caches are filled less than room.
func compareHarm(v *fleet.View, a, b int, room float64) int {
	useA, useB := v.KVUse(a), v.KVUse(b)
	if room > 0 && v.Table.Replicas[a].KVTokens != v.Table.Replicas[b].KVTokens {
		useA, useB = usable(v, a, useA), usable(v, b, useB)
	}
	switch {
	case useA >= room && useB >= room:
		return compareFit(v, a, b)
	case useA >= room || useB >= room:
		return cmp.Compare(useA, useB)
	}
	misses := func(i int) float64 { return math.Round(v.Forecasts[i].Misses / grain) }
	return cmp.Or(cmp.Compare(misses(a), misses(b)), compareFit(v, a, b))
}

// usable returns the use of a replica's cache, and 1 if the replica is slow although its cache has room. A large cache
// may never fill: the batch is too slow before that, and rules refuse the variant while smaller caches have room.
func usable(v *fleet.View, i int, use float64) float64 {
	if v.Forecasts[i].Pace >= slow {
		return max(1, use)
	}
	return use
}

// filling reports whether the variant's caches would come to be about full if all that
// has arrived lately came to it. By Little's law it holds as many requests as
// arrive while one is there. Where full caches would be too slow for the deadline
// they never fill, and harm is what counts.
func (b LeastHarm) filling(v *fleet.View, r *fleet.Request, variant int) bool {
	if len(b.Profiles) != len(v.Table.Replicas) || b.Context <= 0 || b.Output <= 0 {
		return false
	}
	deadline := v.Table.Tasks[r.Task].Allowed(r.Deadline).Seconds() * 1000
	seen := v.ReplicasOf(variant)
	var full float64 // requests that all full caches answer in a second
	for _, i := range seen {
		batch := float64(v.Table.Replicas[i].KVTokens) / b.Context
		if batch < 1 || !v.Available(i) {
			continue
		}
		step, _ := b.Profiles[i].Time(int(batch), int(batch), int(batch*b.Context), 0)
		if step *= v.Slowdown(i); step <= deadline {
			full += batch / (b.Output * step / 1000)
		}
	}
	all := float64(max(v.PresentOf(variant), len(seen))) / float64(len(seen))
	return full > 0 && v.RecentRate() > filled*full*all
}
