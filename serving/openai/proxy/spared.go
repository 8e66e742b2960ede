package proxy

import (
	"sync/atomic"
	"time"

	"gearshift/router/fleet"
	"gearshift/serving/work"
)

// sparings are until when replicas asked to get no more requests, by [http.Header] Retry-After.
// Health spares them for a shorter time where that is long; a client that is refused meanwhile
// is to wait as long as the replica said.
type sparings struct {
	replicas []atomic.Int64 // the time, by replica
	latest   atomic.Int64   // the last of them, so that most refusals look at nothing else
}

func (s *sparings) ask(replica int, until time.Duration) {
	s.replicas[replica].Store(int64(until))
	for last := s.latest.Load(); int64(until) > last && !s.latest.CompareAndSwap(last, int64(until)); last = s.latest.Load() {
	}
}

// Spared returns how long it is until a replica that may answer the request, for the variant or
// [work.Auto], takes requests again by its own word: zero if one has not asked to be spared.
// Down reports whether a replica does not count, because it is not up.
func (p *Proxy) Spared(r *fleet.Request, variant int, down func(replica int) bool) time.Duration {
	now := p.Clock()
	least := time.Duration(p.sparings.latest.Load()) - now
	if least <= 0 {
		return 0
	}
	for i := range p.Table.Replicas {
		if p.Table.Serves(r, i) && (variant == work.Auto || variant == p.Table.Replicas[i].Variant) && !down(i) {
			least = min(least, time.Duration(p.sparings.replicas[i].Load())-now)
		}
	}
	return max(0, least)
}
