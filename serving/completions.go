package serving

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/router"
	"gearshift/serving/wire"
)

// errOverdue is the cause of a context whose request took too long.
var errOverdue = errors.New("the request's time is over")

// complete answers both completion endpoints, streamed or not.
func (s *Server) complete(c *gin.Context) {
	ctx, cancel := context.WithTimeoutCause(c.Request.Context(), s.config.RequestTimeout, errOverdue)
	defer cancel()
	body, fault := s.read(c)
	received := s.clock()
	var k call
	if fault == nil {
		k, fault = s.understand(c.Request.Header, body)
	}
	if fault != nil {
		s.refuse(c, fault)
		return
	}
	work, fault := s.begin(k, c.Writer.Header())
	if fault != nil {
		s.fail(c, fault.status, fault.Error)
		return
	}
	var outcome Outcome
	var tokens int
	// On a panic the outcome is still its zero value, which says so.
	defer func() { s.settle(work, outcome, tokens) }()

	response, err := s.dispatch(ctx, c, k, work, received)
	if err != nil {
		outcome = s.undone(ctx, c, err)
		if !unreachable(err) { // dispatch has said so
			s.report(work.Replica, outcome, 0, true)
		}
		return
	}
	defer response.Body.Close()
	var broken bool
	outcome, tokens, broken = s.relay(ctx, c, response, work)
	if s.report(work.Replica, outcome, response.StatusCode, broken); broken {
		panic(http.ErrAbortHandler)
	}
}

// report tells of how the replica did by the request's outcome and its answer.
func (s *Server) report(replica int, outcome Outcome, status int, broken bool) {
	switch {
	case outcome == TimedOut:
		s.health.failed(replica, failedTimeout)
	case status >= http.StatusInternalServerError:
		s.health.failed(replica, failedStatus)
	case outcome == Failed && broken:
		s.health.failed(replica, failedBroken)
	case outcome == Completed || outcome == Refused:
		s.health.succeeded(replica)
	}
}

// begin routes the call. Headers are those of the answer.
func (s *Server) begin(k call, h http.Header) (*Work, *refusal) {
	before := s.clock()
	work, err := s.adapter.Route(k.fleet, k.variant, nil)
	s.books.decided(s.clock() - before)
	if err != nil {
		s.books.reject(k.fleet.Task, reasonOf(err))
		return nil, s.rejection(err, h)
	}
	s.noteFallback(work)
	h.Set(headerVariant, s.table.Variants[work.Variant].Name)
	h.Set(headerPolicy, work.Policy)
	if work.Fallback {
		h.Set(headerFallback, work.Reason)
	}
	return work, nil
}

// rejection is the answer to a request that no replica can take.
func (s *Server) rejection(err error, h http.Header) *refusal {
	h.Set("Retry-After", strconv.Itoa(int(math.Ceil(s.config.RetryAfter.Seconds()))))
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
	for _, watcher := range s.watchers {
		watcher.Ended(w, r)
	}
	if s.log.Enabled(context.Background(), slog.LevelDebug) {
		s.log.Debug("request", "task", s.table.Tasks[w.Request.Task].Name, "replica", s.table.Replicas[w.Replica].Name,
			"policy", w.Policy, "outcome", outcome.String(), "tokens", tokens, "latency", r.Latency, "utility", r.Utility)
	}
	return r, true
}

// dispatch sends the call to its replica. If that cannot be connected to,
// another of the same variant gets it: nothing has been sent yet.
func (s *Server) dispatch(ctx context.Context, c *gin.Context, k call, w *Work, received time.Duration) (*http.Response, error) {
	header := forwarded(c.Request.Header)
	header.Set(headerRequestID, c.Writer.Header().Get(headerRequestID))
	for retried := false; ; retried = true {
		backend := s.backends[w.Replica]
		model := backend.Model
		if model == "" {
			model = s.table.Variants[w.Variant].Name
		}
		// The host means nothing: a transport leads to one replica.
		out, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://replica"+c.FullPath(), bytes.NewReader(k.WithModel(model)))
		if err != nil {
			return nil, err
		}
		out.Header = header.Clone()
		c.Header(headerReplica, s.table.Replicas[w.Replica].Name)
		if !retried {
			overhead := s.clock() - received
			c.Header(headerOverhead, strconv.FormatInt(overhead.Microseconds(), 10))
			s.books.spent(overhead)
		}
		response, err := backend.Transport.RoundTrip(out)
		if err == nil || !unreachable(err) || ctx.Err() != nil {
			return response, err
		}
		s.health.failed(w.Replica, failedConnect)
		s.log.Warn("cannot connect to replica", "replica", s.table.Replicas[w.Replica].Name, "cooldown", s.config.Cooldown, "error", err)
		if retried || !w.Move() {
			return nil, err
		}
		s.books.retried()
	}
}

// unreachable says that no connection was made, so nothing was sent.
func unreachable(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// undone answers for a request whose upstream gave none.
func (s *Server) undone(ctx context.Context, c *gin.Context, err error) Outcome {
	outcome := s.outcomeOf(ctx, c, err)
	switch outcome {
	case Cancelled:
		// 499 is what proxies log for a client that left; nobody reads it.
		c.Status(499)
	case TimedOut:
		s.fail(c, http.StatusGatewayTimeout, wire.Error{Type: wire.Timeout, Code: "upstream_timeout", Message: "the replica did not answer in time"})
	default:
		if !unreachable(err) { // dispatch has said so
			s.log.Warn("replica failed", "replica", c.Writer.Header().Get(headerReplica), "error", err)
		}
		s.fail(c, http.StatusBadGateway, wire.Error{Type: wire.ServerError, Code: "upstream_unavailable", Message: "the replica could not be reached or broke off"})
	}
	return outcome
}

// outcomeOf says whose doing an error of the upstream is.
func (s *Server) outcomeOf(ctx context.Context, c *gin.Context, err error) Outcome {
	var timeout interface{ Timeout() bool }
	switch {
	case c.Request.Context().Err() != nil:
		return Cancelled
	case context.Cause(ctx) == errOverdue:
		return TimedOut
	case unreachable(err):
		return Failed
	case errors.As(err, &timeout) && timeout.Timeout():
		return TimedOut
	}
	return Failed
}
