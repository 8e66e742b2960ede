package proxy

import (
	"sync"
	"time"

	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// This file remembers which replica has which answer of the Responses API. Engines keep
// those for themselves, and clients come back for one by its ID. Nothing of what was asked or
// answered is kept.

// The bounds of what is remembered of responses. OpenAI keeps them as long; engines
// that keep them in memory do so until they end.
const (
	mostResponses = 1 << 16
	responseAge   = 30 * 24 * time.Hour
)

// Responses remembers which replica has which response. Its methods may be called from any
// goroutine.
type Responses struct {
	clock work.Clock

	mu    sync.Mutex // protects all below
	known map[string]KeptResponse
	order []string // IDs, from the oldest
}

// KeptResponse says where a response is kept.
type KeptResponse struct {
	Replica int
	Tenant  string // on whose behalf it was asked for
	since   time.Duration
}

// NewResponses remembers nothing yet.
func NewResponses(clock work.Clock) *Responses {
	return &Responses{clock: clock, known: map[string]KeptResponse{}}
}

// Keep remembers a response. An ID stays its tenant's: some engines let clients choose
// it, and no tenant may get another's by that.
func (r *Responses) Keep(id string, replica int, tenant string) {
	if !wire.Plain(id) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock()
	for len(r.order) > 0 && now-r.known[r.order[0]].since >= responseAge {
		r.forget()
	}
	was, again := r.known[id]
	if again {
		if was.Tenant == tenant {
			was.Replica = replica
			r.known[id] = was
		}
		return
	}
	if len(r.order) >= mostResponses {
		r.forget()
	}
	r.known[id] = KeptResponse{replica, tenant, now}
	r.order = append(r.order, id)
}

// forget drops the oldest. The caller holds r.mu.
func (r *Responses) forget() {
	delete(r.known, r.order[0])
	r.order = r.order[1:]
}

// Find is where the response is kept. It reports false if that is not known, or too old.
func (r *Responses) Find(id string) (KeptResponse, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.known[id]
	return at, ok && r.clock()-at.since < responseAge
}
