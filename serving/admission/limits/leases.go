package limits

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"gearshift/internal/faults"
)

// This file keeps the places that callers of the route endpoint hold: who
// took each, and how many more may be taken. It reads no clock and starts no timer.

// LeaseConfig bounds the leases.
type LeaseConfig struct {
	// Enabled serves the route endpoint.
	Enabled bool `yaml:"enabled"`
	// Share is the part of the fleet's places, and of each replica's, that all
	// leases together may hold.
	Share float64 `yaml:"share"`
	// KeyShare is the part that the leases of one API key may hold.
	KeyShare float64 `yaml:"key_share"`
	// AnonymousShare is the part that all leases without a key may hold. Zero
	// gives out none.
	AnonymousShare float64 `yaml:"anonymous_share"`
}

// DefaultLeases leaves half of the fleet to requests that the router dispatches.
func DefaultLeases() LeaseConfig {
	return LeaseConfig{Enabled: true, Share: 0.5, KeyShare: 0.25, AnonymousShare: 0.1}
}

// Validate names every fault of the configuration, by its YAML key.
func (c LeaseConfig) Validate() error {
	var found faults.List
	for _, x := range []struct {
		key   string
		share float64
	}{{"share", c.Share}, {"key_share", c.KeyShare}} {
		found.If(!(x.share > 0 && x.share <= 1), "%s: %v must be a share above 0 and at most 1; to give out no leases set enabled: false", x.key, x.share)
	}
	found.If(!(c.AnonymousShare >= 0 && c.AnonymousShare <= 1), "anonymous_share: %v must be a share from 0 to 1", c.AnonymousShare)
	return found.Err()
}

// shareOf is the part that leases of the key may hold.
func (c LeaseConfig) shareOf(key string) float64 {
	if key == "" {
		return c.AnonymousShare
	}
	return c.KeyShare
}

// Room is what one replica has: places for requests, and tokens in its KV cache.
// Zero tokens are unknown, and not bounded.
type Room struct{ Places, Tokens int }

// Lease is a place on a replica that a caller holds.
type Lease[W any] struct {
	ID string
	// Key is the name of the API key that took it, empty without one.
	Key     string
	Replica int
	// Tokens is what it holds of the replica's KV cache.
	Tokens       int
	Taken, Until time.Duration
	// Work ends with the lease.
	Work W
}

// Refusal is the reason why no lease is granted.
type Refusal string

// The refusals. Their text labels metrics.
const (
	// None: the lease is granted.
	None Refusal = ""
	// Off: the endpoint is switched off.
	Off Refusal = "off"
	// Total: all leases together hold their share of the fleet.
	Total Refusal = "total"
	// OfKey: the leases of the key hold its share of the fleet.
	OfKey Refusal = "key"
	// Anonymous: the leases without a key hold their share of the fleet.
	Anonymous Refusal = "anonymous"
	// Replica: leases hold their share of the one replica that was chosen.
	Replica Refusal = "replica"
	// Closed: the server shuts down.
	Closed Refusal = "closed"
)

// Refusals are all reasons that there are.
var Refusals = []Refusal{Off, Total, OfKey, Anonymous, Replica, Closed}

// LeaseSet holds the leases that are out. Its methods may be called from any goroutine.
type LeaseSet[W any] struct {
	rooms  []Room
	places int // of the fleet

	mu     sync.Mutex // protects all below
	held   map[string]Lease[W]
	closed bool
}

// NewSet makes an empty set over the replicas.
func NewSet[W any](rooms []Room) *LeaseSet[W] {
	s := &LeaseSet[W]{rooms: rooms, held: map[string]Lease[W]{}}
	for _, r := range rooms {
		s.places += r.Places
	}
	return s
}

// Fits reports why the key would get no lease on any replica.
func (s *LeaseSet[W]) Fits(c LeaseConfig, key string) Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusal(c, Lease[W]{Key: key, Replica: -1})
}

// Add gives the lease out, unless that exceeds a share.
func (s *LeaseSet[W]) Add(c LeaseConfig, l Lease[W]) Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	if why := s.refusal(c, l); why != None {
		return why
	}
	s.held[l.ID] = l
	return None
}

// refusal looks at every lease: a Set has few, since each holds a place. The caller
// holds s.mu.
func (s *LeaseSet[W]) refusal(c LeaseConfig, l Lease[W]) Refusal {
	switch {
	case s.closed:
		return Closed
	case !c.Enabled:
		return Off
	}
	all, own := s.use(l.Replica, func(Lease[W]) bool { return true }), s.use(l.Replica, func(o Lease[W]) bool { return o.Key == l.Key })
	share := c.shareOf(l.Key)
	switch {
	case own.fleet >= shareOf(share, s.places) && l.Key == "":
		return Anonymous
	case own.fleet >= shareOf(share, s.places):
		return OfKey
	case all.fleet >= shareOf(c.Share, s.places):
		return Total
	case l.Replica < 0:
		return None
	}
	room := s.rooms[l.Replica]
	if !own.leaves(share, room, l.Tokens) || !all.leaves(c.Share, room, l.Tokens) {
		return Replica
	}
	return None
}

// use is what some of the leases hold, of the fleet and of one replica.
type use struct{ fleet, places, tokens int }

func (s *LeaseSet[W]) use(replica int, of func(Lease[W]) bool) (u use) {
	for _, l := range s.held {
		if !of(l) {
			continue
		}
		u.fleet++
		if l.Replica == replica {
			u.places++
			u.tokens += l.Tokens
		}
	}
	return u
}

// leaves reports whether the share of the replica has room for one more lease.
func (u use) leaves(share float64, r Room, tokens int) bool {
	return u.places < shareOf(share, r.Places) && (r.Tokens == 0 || float64(u.tokens+tokens) <= share*float64(r.Tokens))
}

// part is the share of so many places: one at least, unless the share is none.
func shareOf(share float64, places int) int {
	if share == 0 {
		return 0
	}
	return max(1, int(share*float64(places)))
}

// End takes out the lease for the one who took it. It reports false to anyone else,
// as if there were none.
func (s *LeaseSet[W]) End(id, key string) (Lease[W], bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.held[id]
	if !ok || l.Key != key {
		return Lease[W]{}, false
	}
	delete(s.held, id)
	return l, true
}

// Remove takes out the lease, whichever key took it.
func (s *LeaseSet[W]) Remove(id string) (Lease[W], bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.held[id]
	delete(s.held, id)
	return l, ok
}

// RemoveAll takes out the leases that f reports true of.
func (s *LeaseSet[W]) RemoveAll(f func(Lease[W]) bool) (out []Lease[W]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, l := range s.held {
		if f(l) {
			out = append(out, l)
			delete(s.held, id)
		}
	}
	return out
}

// Close takes out all leases. No more are granted.
func (s *LeaseSet[W]) Close() []Lease[W] {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	return s.RemoveAll(func(Lease[W]) bool { return true })
}

// List is the leases that are held, the oldest first.
func (s *LeaseSet[W]) List() []Lease[W] {
	s.mu.Lock()
	list := make([]Lease[W], 0, len(s.held))
	for _, l := range s.held {
		list = append(list, l)
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b Lease[W]) int {
		return cmp.Or(cmp.Compare(a.Taken, b.Taken), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// Count adds the leases to the replicas' counts.
func (s *LeaseSet[W]) Count(to []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.held {
		to[l.Replica]++
	}
}
