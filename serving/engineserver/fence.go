package engineserver

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"gearshift/serving/engines/agents"
	"gearshift/serving/openai/wire"
)

// Fence admits orders, such as loads and unloads, of the router that the engine's agent reports to, and
// of no other client. An order carries the fleet's secret, and an epoch that has the term of the
// router's controller in its upper half. Orders of another term than the one that the router gave at
// the registration are refused, and so are those of an older epoch than the newest seen for their
// model. An order without an epoch, such as an operator's own, needs the secret alone.
type Fence struct {
	// Secret is the fleet's; it is not empty.
	Secret string

	mu     sync.Mutex // protects what follows
	term   uint64
	newest map[string]uint64 // by model
	begun  chan struct{}     // closed at the next Begin
}

// Term is the newest term that a router has given; 0 before the first.
func (f *Fence) Term() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.term
}

// Begin enters the term that the router has given in answer to a registration. It refuses one that is
// older than the newest.
func (f *Fence) Begin(term uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if term < f.term {
		return fmt.Errorf("the router gives the term %d, and another one has given %d: run the same version of gearshift on both", term, f.term)
	}
	f.term = term
	if f.begun != nil {
		close(f.begun)
		f.begun = nil
	}
	return nil
}

// overtaken is the error of an order that another one, or another router, has overtaken.
type overtaken struct {
	term uint64 // that the engine follows
	text string
}

// Error implements [error].
func (e *overtaken) Error() string { return e.text }

// registering bounds how long an order waits for the registration that gives its term: a router that has
// just started may send orders before it has heard the agent.
const registering = 2 * time.Second

// admit refuses an order about the model that is not of the router in charge, or older than one seen.
// An empty model is all of them.
func (f *Fence) admit(ctx context.Context, model string, epoch uint64) error {
	late := time.NewTimer(registering)
	defer late.Stop()
	for {
		begun, err := f.judge(model, epoch)
		if begun == nil {
			return err
		}
		select {
		case <-begun:
		case <-late.C:
			return err
		case <-ctx.Done():
			return err
		}
	}
}

// judge admits or refuses an order. A registration can change what it says if begun is not nil, which
// is closed then.
func (f *Fence) judge(model string, epoch uint64) (begun <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	newest, term := max(f.newest[model], f.newest[""]), epoch>>32
	switch {
	case term > f.term:
		if f.begun == nil {
			f.begun = make(chan struct{})
		}
		given := fmt.Sprintf("has given it term %d", f.term)
		if f.term == 0 {
			given = "has not registered it yet"
		}
		return f.begun, &overtaken{f.term, fmt.Sprintf("the order is of term %d, and the router that this engine reports to %s", term, given)}
	case term < f.term:
		return nil, &overtaken{f.term, fmt.Sprintf("the order is of term %d, and term %d has begun: another router is in charge", term, f.term)}
	case epoch < newest:
		return nil, &overtaken{f.term, fmt.Sprintf("the order is of epoch %d, and one of epoch %d has been seen", epoch, newest)}
	}
	if f.newest == nil {
		f.newest = map[string]uint64{}
	}
	f.newest[model] = epoch
	return nil, nil
}

// fenced serves orders that the fence admits, and answers others by fail.
func (s *Server) fenced(next http.HandlerFunc, fail func(http.ResponseWriter, int, error)) http.HandlerFunc {
	if s.fence == nil {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get(agents.HeaderFleet)), []byte(s.fence.Secret)) != 1 {
			s.hold(r, "an order without the fleet's token")
			fail(w, http.StatusForbidden, fmt.Errorf("this engine reports to a router, and takes orders with the fleet's token alone: order it through the router, or send the token in %s", agents.HeaderFleet))
			return
		}
		if err := s.inOrder(r); err != nil {
			status := http.StatusBadRequest
			if late := (*overtaken)(nil); errors.As(err, &late) {
				status = http.StatusConflict
				w.Header().Set(agents.HeaderTerm, strconv.FormatUint(late.term, 10))
			}
			s.log.Warn("order refused", "path", r.URL.Path, "error", err)
			fail(w, status, err)
			return
		}
		next(w, r)
	}
}

// inOrder refuses an order whose epoch is not in order.
func (s *Server) inOrder(r *http.Request) error {
	text := r.Header.Get(agents.HeaderEpoch)
	if text == "" {
		return nil
	}
	epoch, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return fmt.Errorf("%s: %q; want a whole number", agents.HeaderEpoch, text)
	}
	model := r.PathValue("model")
	if model == "" {
		model = r.URL.Query().Get("model")
	}
	return s.fence.admit(r.Context(), model, epoch)
}

// failOrder answers an order to sleep or to wake that the fence refuses, in the shape of vLLM.
func failOrder(w http.ResponseWriter, status int, err error) {
	code := map[int]wire.Optional{http.StatusForbidden: "fleet_token", http.StatusConflict: "older_epoch"}[status]
	fail(w, status, wire.Error{Type: wire.InvalidRequest, Code: code, Message: oneLine(err)})
}
