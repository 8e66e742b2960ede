package access

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Ring is all keys in force. It does not change; a new one replaces it. Its
// methods may be called from any goroutine.
type Ring struct {
	holders []*Holder
	byHash  map[Hash]*Holder
}

// Holder is who has a key, and how much they have asked for. Its methods may be
// called from any goroutine.
type Holder struct {
	Name  string
	count [verdicts]atomic.Uint64 // of the holder's requests, by Verdict
	spent spending

	mu       sync.Mutex // protects all below
	limits   Limits
	grants   Grants
	inFlight int
	tokens   float64 // in the bucket, at the time last
	last     time.Duration
}

// Verdict is whether a request may pass.
type Verdict uint8

// The verdicts.
const (
	Accepted Verdict = iota
	// TooFast: the rate is spent.
	TooFast
	// TooMany requests of the holder are in flight.
	TooMany
	verdicts
)

// KeyVerdicts are all there are.
var KeyVerdicts = []Verdict{Accepted, TooFast, TooMany}

// String labels metrics.
func (v Verdict) String() string { return [...]string{"accepted", "rate", "concurrency"}[v] }

// NewRing puts the keys in force. Holders whose names an earlier ring knows keep
// their counts, and what is left of their rate; their new limits hold at once, in the
// earlier ring too.
func NewRing(list []Key, earlier *Ring) *Ring {
	r := &Ring{byHash: make(map[Hash]*Holder, len(list))}
	known := map[string]*Holder{}
	for _, h := range earlier.Holders() {
		known[h.Name] = h
	}
	for _, k := range list {
		h := known[k.Name]
		if h == nil {
			h = &Holder{Name: k.Name, tokens: math.Inf(1)} // a full bucket, however deep
		}
		h.mu.Lock()
		h.limits, h.grants = k.Limits, k.Grants
		h.mu.Unlock()
		r.holders = append(r.holders, h)
		r.byHash[k.Hash] = h
	}
	return r
}

// Find is who holds the secret, or nil.
func (r *Ring) Find(secret string) *Holder { return r.byHash[HashOf(secret)] }

// Holders are all holders, in the file's order. No ring has none.
func (r *Ring) Holders() []*Holder {
	if r == nil {
		return nil
	}
	return r.holders
}

// Begin asks for a request now, by the clock. An accepted one must End. Otherwise
// wait is the time until the rate would allow it; zero says that the end of
// another request would.
func (h *Holder) Begin(clock func() time.Duration) (v Verdict, wait time.Duration) {
	h.mu.Lock()
	// The clock is read under the lock: of two times, the later then comes later.
	v, wait = h.begin(clock())
	h.mu.Unlock()
	h.count[v].Add(1)
	return v, wait
}

// begin takes a place first, so that a request without one costs nothing of
// the rate.
func (h *Holder) begin(now time.Duration) (Verdict, time.Duration) {
	if h.limits.Concurrency > 0 && h.inFlight >= h.limits.Concurrency {
		return TooMany, 0
	}
	if h.limits.Rate > 0 {
		if wait := h.take(now); wait > 0 {
			return TooFast, wait
		}
	}
	h.inFlight++
	return Accepted, 0
}

// sliver is what may be missing of a token for the rounding of sums.
const sliver = 1e-9

// take takes a token from the bucket, or says how long until there is one.
func (h *Holder) take(now time.Duration) (wait time.Duration) {
	h.tokens = min(float64(h.limits.burst()), h.tokens+(now-h.last).Seconds()*h.limits.Rate)
	h.last = now
	if h.tokens < 1-sliver {
		return time.Duration(math.Ceil((1 - h.tokens) / h.limits.Rate * float64(time.Second)))
	}
	h.tokens--
	return 0
}

// End says that an accepted request is over.
func (h *Holder) End() {
	h.mu.Lock()
	h.inFlight--
	h.mu.Unlock()
}

// Count is how many requests of the holder have got the verdict so far.
func (h *Holder) Count(v Verdict) uint64 { return h.count[v].Load() }

// InFlight is how many accepted requests are not over.
func (h *Holder) InFlight() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.inFlight
}

// Grants are those in force. Their lists are not to be changed.
func (h *Holder) Grants() Grants {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.grants
}

// Limits are those in force.
func (h *Holder) Limits() Limits {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.limits
}
