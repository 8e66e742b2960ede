package serving

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/router"
	"gearshift/serving/config"
	"gearshift/serving/keys"
	"gearshift/serving/wire"
	"gearshift/serving/work"
)

// headerReason says why a request is refused under load.
const headerReason = "X-Gearshift-Reason"

// headerWaited is how long the request waited for room.
const headerWaited = "X-Gearshift-Waited-Ms"

// The reasons of a refusal: labels of a metric, and codes of errors. The first five are
// the router's.
const (
	reasonDeadline  = router.RefusedLate
	reasonFull      = router.RefusedFull
	reasonDisplaced = router.RefusedEvicted
	reasonSaturated = router.RefusedSaturated
	reasonNoReplica = router.RefusedNoReplica
	reasonCancelled = "cancelled" // its client left while it waited
	reasonClosed    = "not_ready" // the server shuts down
	reasonError     = "internal_error"
)

var reasons = []string{reasonDeadline, reasonFull, reasonDisplaced, reasonSaturated, reasonNoReplica, reasonCancelled, reasonClosed, reasonError}

// refusals say to a client why its request is refused.
var refusals = map[string]refusal{
	reasonDeadline:  {http.StatusTooManyRequests, wire.Error{Type: wire.RateLimit, Message: "no replica could answer within the deadline; try again later"}},
	reasonFull:      {http.StatusTooManyRequests, wire.Error{Type: wire.RateLimit, Message: "too many requests are waiting; try again later"}},
	reasonDisplaced: {http.StatusTooManyRequests, wire.Error{Type: wire.RateLimit, Message: "the request made way for one with more claim; try again later"}},
	reasonSaturated: {http.StatusTooManyRequests, wire.Error{Type: wire.RateLimit, Message: "every replica that could answer is full; try again later"}},
	reasonNoReplica: {http.StatusServiceUnavailable, wire.Error{Type: wire.ServerError, Message: "no replica that could answer is up"}},
	reasonCancelled: {499, wire.Error{Type: wire.InvalidRequest, Message: "the client left while the request waited"}}, // nobody reads it
	reasonClosed:    {http.StatusServiceUnavailable, wire.Error{Type: wire.ServerError, Message: "shutting down"}},
	reasonError:     {http.StatusInternalServerError, wire.Error{Type: wire.ServerError, Message: "cannot route the request"}},
}

// enter routes the call, after a wait for room if it takes one, of which the request's
// time bounds how long.
func (s *Server) enter(c *gin.Context, e *endpoint, k call, until time.Duration) (*work.Work, *refusal) {
	h := c.Writer.Header()
	claim, fault := s.claims(c)
	var spend keys.Spend
	if fault == nil && !e.counts { // no budget pays for what no model does
		answers := 0
		if e.generates {
			answers = max(1, k.fleet.Answers)
		}
		spend, fault = s.reserve(c, s.expected(k.fleet.PromptTokens, answers, k.MaxTokens()))
	}
	if fault != nil {
		s.metrics.Refused(fault.status)
		k.account.refused()
		return nil, fault
	}
	k.account.claimed(claim.tenant)
	s.fit(&k)
	before := s.clock()
	w := s.adapter.Arrive(k.fleet)
	w.Spend, w.Prompt = spend, k.prompt
	w.Streams = e.generates && k.Stream
	w.Tokenless = !e.generates && !e.counts
	if e.generates && !k.Stream {
		// Nobody sees how far an answer in one piece has come. Of those that run at a
		// time, each has generated a mean answer in the mean, if lengths are geometric.
		w.Unseen = int(s.line.output) * max(1, k.fleet.Answers)
	}
	if err := s.line.admit(c.Request.Context(), w, k, claim, until); err != nil && !s.unfit(w, k, err) {
		spend.End(time.Now(), 0)
		return nil, s.shed(err, k, claim, h)
	}
	if w.Waited > 0 {
		h.Set(headerWaited, strconv.FormatInt(w.Waited.Milliseconds(), 10))
	}
	s.begun(w, k, s.clock()-before-w.Waited, h)
	return w, nil
}

// begin routes the call of a caller that dispatches by itself, at once, or refuses it.
// Headers are those of the answer.
func (s *Server) begin(k call, maxTokens int, spend keys.Spend, h http.Header) (*work.Work, *refusal) {
	s.fit(&k)
	before := s.clock()
	w := s.adapter.Arrive(k.fleet)
	w.Spend = spend
	w.Reported = true
	w.Unseen = s.unseenOf(maxTokens) // the caller does not report how far the answer is
	if err := w.Begin(k.variant, k.account.observer(k.fleet)); err != nil && !s.unfit(w, k, err) {
		spend.End(time.Now(), 0)
		claim := claim{class: s.line.kinds.Load().listed[0]}
		return nil, s.shed(s.line.refused(err, claim), k, claim, h)
	}
	s.begun(w, k, s.clock()-before, h)
	return w, nil
}

// begun enters work that has its place, after a decision that took so long, and says
// in the answer's header who routed it.
func (s *Server) begun(w *work.Work, k call, took time.Duration, h http.Header) {
	s.metrics.Chosen(w, took)
	s.logFallback(w)
	h[headerVariant], h[headerPolicy] = two(s.table.Variants[w.Variant].Name, w.Policy)
	if w.Fallback {
		h.Set(headerFallback, w.Reason)
	}
	k.account.routed(w, took, h)
}

// two values of header fields, for one allocation.
func two(a, b string) (first, second []string) {
	both := []string{a, b}
	return both[:1:1], both[1:]
}

// shed counts a request that is not begun, and answers it.
func (s *Server) shed(err error, k call, by claim, h http.Header) *refusal {
	reason := reasonOf(err)
	s.metrics.Shed(k.fleet.Task, s.line.class(by.class), reason)
	if reason == reasonError {
		s.log.Error("cannot route", "error", err)
	}
	f := refusals[reason]
	f.Code = wire.Optional(reason)
	if k.fleet.Only > 0 && reason == reasonNoReplica {
		f.Message = s.lost(k.fleet.Only - 1)
	}
	after := s.settings().RetryAfter
	var refused router.Refusal
	if errors.As(err, &refused) {
		after = refused.After
	}
	h.Set(headerReason, reason)
	h.Set("Retry-After", strconv.Itoa(int((after+time.Second-1)/time.Second)))
	return &f
}

// reasonOf is why a request is not begun.
func reasonOf(err error) string {
	if reason := router.Refused(err); reason != "" {
		return reason
	}
	var late config.Overdue
	switch {
	case errors.As(err, &late):
		return reasonDeadline
	case errors.Is(err, errClosed):
		return reasonClosed
	case errors.Is(err, context.Canceled):
		return reasonCancelled
	}
	return reasonError
}
