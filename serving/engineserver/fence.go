package engineserver

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"gearshift/serving/heartbeat"
)

// Fence refuses orders of routers that have been replaced, and orders that others have overtaken.
// An order's epoch has the term of the router's controller in its upper half: one of an older term
// than the newest seen is refused, and so is one of an older epoch than the newest seen for its
// model. Orders without an epoch, such as an operator's own, pass.
type Fence struct {
	mu     sync.Mutex // protects what follows
	term   uint64
	newest map[string]uint64 // by model
}

// Begin enters the term of a router that is in charge from now on. It refuses one that is older
// than the newest seen.
func (f *Fence) Begin(term uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if term < f.term {
		return fmt.Errorf("the router's term %d is older than %d, which this engine has seen: another router is in charge, or this one has lost its --failover-state; restart the engine to follow it", term, f.term)
	}
	f.term = term
	return nil
}

// admit refuses an order about the model that is older than one seen. An empty model is all of them.
func (f *Fence) admit(model string, epoch uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	newest := max(f.newest[model], f.newest[""])
	switch {
	case epoch>>32 < f.term:
		return fmt.Errorf("the order is of term %d, and term %d has begun: another router is in charge", epoch>>32, f.term)
	case epoch < newest:
		return fmt.Errorf("the order is of epoch %d, and one of epoch %d has been seen", epoch, newest)
	}
	if f.newest == nil {
		f.newest = map[string]uint64{}
	}
	f.term, f.newest[model] = epoch>>32, epoch
	return nil
}

// fenced answers 409, by fail, to orders that the fence refuses.
func (s *Server) fenced(next http.HandlerFunc, fail func(http.ResponseWriter, int, error)) http.HandlerFunc {
	if s.fence == nil {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) {
		text := r.Header.Get(heartbeat.HeaderEpoch)
		if text == "" || r.Method == http.MethodGet {
			next(w, r)
			return
		}
		epoch, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			fail(w, http.StatusBadRequest, fmt.Errorf("%s: %q; want a whole number", heartbeat.HeaderEpoch, text))
			return
		}
		model := r.PathValue("model")
		if model == "" {
			model = r.URL.Query().Get("model")
		}
		if err := s.fence.admit(model, epoch); err != nil {
			s.log.Warn("order refused", "path", r.URL.Path, "error", err)
			fail(w, http.StatusConflict, err)
			return
		}
		next(w, r)
	}
}
