package serving

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"gearshift/router"
	"gearshift/serving/wire"
)

// complete answers a request to an endpoint of the replicas, streamed or not.
func (s *Server) complete(c *gin.Context, e *endpoint) {
	ctx, cancel := context.WithTimeoutCause(c.Request.Context(), s.settings().Timeouts.Total, overdue(phaseTotal))
	defer cancel()
	body, fault := s.read(c)
	received := s.clock()
	var k call
	if fault == nil {
		k, fault = s.understand(c.Request.Header, body)
	}
	k.account = accountOf(c.Request.Context()).understood(k)
	if fault != nil {
		s.refuse(c, fault)
		return
	}
	work, fault := s.begin(k, c.Writer.Header())
	if fault != nil {
		s.fail(c, fault.status, fault.Error)
		return
	}
	work.FirstTokenDeadline = k.firstToken
	var outcome Outcome
	var tokens int
	// On a panic the outcome is still its zero value, which says so.
	defer func() { s.settle(work, outcome, tokens) }()

	d := &dispatch{Server: s, ctx: ctx, gin: c, call: k, work: work, endpoint: e, header: forwarded(c.Request.Header), received: received}
	d.header.Set(headerRequestID, c.Writer.Header().Get(headerRequestID))
	a := d.run()
	defer a.close()
	var broken bool
	if outcome, tokens, broken = d.relay(a); broken {
		panic(http.ErrAbortHandler)
	}
}

// begin routes the call. Headers are those of the answer.
func (s *Server) begin(k call, h http.Header) (*Work, *refusal) {
	before := s.clock()
	work, err := s.adapter.Route(k.fleet, k.variant, k.account.witness(k.fleet))
	took := s.clock() - before
	s.books.decided(took)
	if err != nil {
		s.books.reject(k.fleet.Task, reasonOf(err))
		return nil, s.rejection(err, h)
	}
	s.noteFallback(work)
	s.books.choices.chosen(work)
	h.Set(headerVariant, s.table.Variants[work.Variant].Name)
	h.Set(headerPolicy, work.Policy)
	if work.Fallback {
		h.Set(headerFallback, work.Reason)
	}
	k.account.routed(work, took, h)
	return work, nil
}

// rejection is the answer to a request that no replica can take.
func (s *Server) rejection(err error, h http.Header) *refusal {
	h.Set("Retry-After", strconv.Itoa(int(math.Ceil(s.settings().RetryAfter.Seconds()))))
	switch {
	case errors.Is(err, router.ErrSaturated):
		return &refusal{http.StatusTooManyRequests, wire.Error{Type: wire.RateLimit, Code: "saturated", Message: "every replica that could answer is full; try again later"}}
	case errors.Is(err, router.ErrNoReplica):
		return &refusal{http.StatusServiceUnavailable, wire.Error{Type: wire.ServerError, Code: "no_replica", Message: "no replica that could answer is up"}}
	}
	s.log.Error("cannot route", "error", err)
	return &refusal{http.StatusInternalServerError, wire.Error{Type: wire.ServerError, Code: "internal_error", Message: "cannot route the request"}}
}

func reasonOf(err error) string {
	switch {
	case errors.Is(err, router.ErrSaturated):
		return "saturated"
	case errors.Is(err, router.ErrNoReplica):
		return "no replica"
	}
	return "error"
}

// noteFallback counts a fallback, and logs when fallbacks begin and end.
func (s *Server) noteFallback(w *Work) {
	if w.Fallback {
		s.books.fallback(w.Reason)
	}
	if w.Policy == router.Pinned || s.onFallback.Load() == w.Fallback || s.onFallback.Swap(w.Fallback) == w.Fallback {
		return
	}
	if w.Fallback {
		s.log.Warn("the policy does not route; a fallback does", "reason", w.Reason, "by", w.Policy)
	} else {
		s.log.Info("the policy routes again", "policy", w.Policy)
	}
}

// settle ends work and enters it in the books, once.
func (s *Server) settle(w *Work, outcome Outcome, tokens int) (Result, bool) {
	r, first := w.End(outcome, tokens)
	if !first {
		return r, false
	}
	s.books.settle(w, r)
	s.books.life.settle(w, r)
	for _, watcher := range s.watchers {
		watcher.Ended(w, r)
	}
	w.account.over(r)
	return r, true
}
