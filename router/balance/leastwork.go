package balance

import "gearshift/router/fleet"

// LeastWork picks the available replica with the least outstanding work, the request
// included: the time that the tokens still to come take at the speed of a full batch
// there, by the profile of the variant. Every request is expected to produce alike,
// so what distinguishes replicas is
//
//	(in flight + 1) · step(N) / N
//
// where N requests of the mean length fill the KV cache, or are the largest batch, and busy neighbours on the
// host slow the step. Work is counted on each replica and priced by its own variant's
// profile: a host with many requests of a small model may still have the least of a
// large one's. Replicas whose KV cache is crowded come last, the fullest at the end.
//
// The tokens held show what has been produced already. To subtract that does harm: it
// favours the caches that are the fullest.
//
// Without profiles it is [SmallestFitting].
type LeastWork Known

// Name is "least-work".
func (LeastWork) Name() string { return "least-work" }

// Pick implements router.Balancer. Of equals, any by the random number.
func (b LeastWork) Pick(v *fleet.View, r *fleet.Request, variant int, random uint64) int {
	if len(b.Profiles) != len(v.Table.Replicas) {
		return SmallestFitting{}.Pick(v, r, variant, random)
	}
	best, least, ties := -1, 0.0, 0
	for _, i := range v.ReplicasOf(variant) {
		if !v.Available(i) {
			continue
		}
		switch work := b.work(v, i); {
		case best < 0 || work < least:
			best, least, ties = i, work, 1
		case work == least:
			ties++
		}
	}
	if ties < 2 {
		return best
	}
	n := below(random, ties)
	for _, i := range v.ReplicasOf(variant) {
		if !v.Available(i) || b.work(v, i) != least {
			continue
		}
		if n == 0 {
			return i
		}
		n--
	}
	return best
}

const (
	// fullBatch is the batch of a replica whose KV cache is of unknown size.
	fullBatch = 64
	// beyond is more work than any, in milliseconds.
	beyond = 1e12
)

// work is what the replica has, and a further request, in milliseconds per token of
// each.
func (b LeastWork) work(v *fleet.View, replica int) float64 {
	if use := v.KVUse(replica); use >= crowded {
		return beyond * use
	}
	batch := fullBatch
	if size := v.Table.Replicas[replica].KVTokens; size > 0 && b.Context > 0 {
		batch = max(1, int(float64(size)/b.Context))
	}
	if b.Profiles[replica].Batches != nil {
		batch = b.Profiles[replica].Most(0)
	}
	step, _ := b.Profiles[replica].Step(batch, batch, int(float64(batch)*b.Context), b.neighbours(v, replica))
	return float64(v.InFlight[replica]+1) * v.Slowdown(replica) * step / float64(batch)
}

// neighbours is the sum of the duties of the host's other busy engines.
func (b LeastWork) neighbours(v *fleet.View, replica int) float64 {
	var sum float64
	for _, i := range v.Table.ReplicasOn(v.Table.Replicas[replica].Host) {
		if n := int(v.InFlight[i]); i != replica && n > 0 {
			_, duty := b.Profiles[i].Step(n, n, int(v.Held[i]), 0)
			sum += duty
		}
	}
	return sum
}
