package balance

import "gearshift/router/fleet"

// crowded is the share of a KV cache from which a further request risks that
// another is preempted and computed again.
const crowded = 0.8

// SmallestFitting picks like [SmallestBatch] among the replicas with room in
// their KV cache, and where none has room the one whose cache is the least
// full. Sequences differ in age, so equal batches fill equal caches unequally:
// by batch alone one replica preempts while another has room.
type SmallestFitting struct{}

// Name is "smallest-fitting".
func (SmallestFitting) Name() string { return "smallest-fitting" }

// Pick implements router.Balancer.
func (SmallestFitting) Pick(v *fleet.View, _ *fleet.Request, variant int, random uint64) int {
	return pick(v, variant, random, compareFit)
}

// compareFit orders two replicas by how welcome a further request is.
func compareFit(v *fleet.View, a, b int) int {
	useA, useB := v.KVUse(a), v.KVUse(b)
	switch {
	case useA < crowded && useB < crowded:
		return int(v.InFlight[a] - v.InFlight[b])
	case useA < useB:
		return -1
	case useA > useB:
		return 1
	}
	return int(v.InFlight[a] - v.InFlight[b])
}
