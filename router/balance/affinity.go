package balance

import (
	"math"

	"gearshift/internal/splitmix"
	"gearshift/router/fleet"
)

// Affinity sends the requests of one session to one replica of the variant, whose
// prefix cache has the session's earlier turns, as long as that replica is not much
// busier than the others. It keeps nothing: a session's replicas are in the order
// of a rendezvous hash of the session and the replica, so that every router comes
// to the same, and a replica that goes moves only its own sessions. The first that
// is within the bound takes the request:
//
//	in flight + 1 ≤ ⌈Bound · (least in flight + 1)⌉
//
// as in consistent hashing with bounded loads (Mirrokni et al. 2018), and it has
// room in its KV cache. Requests without a session, and all where none has room,
// use the balancer within.
type Affinity struct {
	Balancer
	// Bound is at least 1. At 1 the session decides only among the least busy.
	Bound float64
}

// Pick implements router.Balancer.
func (a Affinity) Pick(v *fleet.View, r *fleet.Request, variant int, random uint64) int {
	if r.Session == 0 {
		return a.Balancer.Pick(v, r, variant, random)
	}
	most := int32(math.MaxInt32)
	if bound := math.Ceil(a.Bound * float64(v.Shortest(variant)+1)); bound < math.MaxInt32 {
		most = int32(bound) - 1
	}
	best, highest := -1, uint64(0)
	for _, i := range v.ReplicasOf(variant) {
		if !eligible(v, i, most) || v.KVUse(i) >= crowded {
			continue
		}
		if score := rendezvous(r.Session, i); best < 0 || score > highest {
			best, highest = i, score
		}
	}
	if best < 0 {
		return a.Balancer.Pick(v, r, variant, random)
	}
	return best
}

// rendezvous is the score of a replica for a session: the finaliser of SplitMix64
// (Steele et al. 2014), twice, which leaves no trace of the index's order.
func rendezvous(session uint64, replica int) uint64 {
	return splitmix.Mix(session ^ splitmix.Next(uint64(replica)))
}
