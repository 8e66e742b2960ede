package serving

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving/access"
	"gearshift/serving/admission"
	"gearshift/serving/openai/proxy"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// headerWaited is how long the request waited for room.
const headerWaited = "X-Gearshift-Waited-Ms"

// enter routes the call, after a wait for room if it takes one, of which the request's
// time bounds how long.
func (s *Server) enter(c *gin.Context, e *proxy.Endpoint, k call, until time.Duration, alive *proxy.KeepAlive) (*work.Work, *wire.Refusal) {
	h := c.Writer.Header()
	key, fault := s.queue.Key(c.Request.Header, access.Tenant(c), access.Granted(c).Classes)
	var spend access.Spend
	if fault == nil && !e.Counts { // no budget pays for what no model does
		answers := 0
		if e.Generates {
			answers = max(1, k.fleet.Answers)
		}
		spend, fault = access.Reserve(c, s.expected(k.fleet.PromptTokens, answers, k.MaxTokens()))
	}
	if fault != nil {
		s.metrics.Refused(fault.Status)
		k.account.refused()
		return nil, fault
	}
	k.account.queued(key.Tenant)
	s.fit(&k)
	before := s.clock()
	w := s.adapter.Arrive(k.fleet)
	w.Spend, w.Prompt = spend, k.prompt
	w.Streams = e.Generates && k.Stream
	w.Tokenless = !e.Generates && !e.Counts
	if e.Generates && !k.Stream {
		// Nobody sees how far an answer in one piece has come. Of those that run at a
		// time, each has generated a mean answer in the mean, if lengths are geometric.
		w.Unseen = int(s.queue.Output()) * max(1, k.fleet.Answers)
	}
	observer := k.account.observer(k.fleet)
	alive.Wait(nil)
	err := s.queue.Admit(c.Request.Context(), w, k.variant, observer, key, until)
	alive.Rest()
	if err != nil && !s.unfit(w, k, err) {
		spend.End(time.Now(), 0)
		return nil, s.shed(err, k, key, h)
	}
	if w.Waited > 0 {
		h.Set(headerWaited, strconv.FormatInt(w.Waited.Milliseconds(), 10))
	}
	took := s.clock() - before - w.Waited
	s.inform(c, w)
	s.begun(w, k, took, h)
	return w, nil
}

// expected is how many tokens the request is expected to take, of its prompt and of so
// many answers, of at most maxTokens each if that is not zero.
func (s *Server) expected(prompt, answers, maxTokens int) int64 {
	mean := s.queue.Output()
	switch {
	case maxTokens > 0 && (mean == 0 || float64(maxTokens) < mean):
		mean = float64(maxTokens)
	case mean == 0:
		mean = 1
	}
	return int64(prompt) + int64(math.Ceil(mean))*int64(answers)
}

// begin routes the call of a caller that dispatches by itself, at once, or refuses it.
// Headers are those of the answer.
func (s *Server) begin(k call, maxTokens int, spend access.Spend, h http.Header) (*work.Work, *wire.Refusal) {
	s.fit(&k)
	before := s.clock()
	w := s.adapter.Arrive(k.fleet)
	w.Spend = spend
	w.Reported = true
	w.Unseen = s.leases.Unseen(maxTokens) // the caller does not report how far the answer is
	if err := w.Begin(k.variant, k.account.observer(k.fleet)); err != nil && !s.unfit(w, k, err) {
		spend.End(time.Now(), 0)
		key := s.queue.Default()
		return nil, s.shed(s.queue.Refused(err, key), k, key, h)
	}
	s.begun(w, k, s.clock()-before, h)
	return w, nil
}

// begun enters work that has its place, after a decision that took so long, and says
// in the answer's header who routed it.
func (s *Server) begun(w *work.Work, k call, took time.Duration, h http.Header) {
	s.metrics.Chosen(w, took)
	s.logFallback(w)
	h[proxy.Variant], h[headerPolicy] = proxy.Two(s.table.Variants[w.Variant].Name, w.Policy)
	if w.Fallback {
		h.Set(headerFallback, w.Reason)
	}
	k.account.routed(w, took, h)
}

// shed counts a request that is not begun, and answers it.
func (s *Server) shed(err error, k call, by admission.FlowKey, h http.Header) *wire.Refusal {
	reason := admission.ReasonOf(err)
	k.account.rejected(reason)
	s.metrics.Shed(k.fleet.Task, s.queue.Class(by.Class), reason)
	if reason == admission.ReasonError {
		s.log.Error("cannot route", "error", err)
	}
	f := admission.RefusalFor(reason)
	if k.fleet.Only > 0 && reason == admission.ReasonNoReplica {
		f.Message = s.lost(k.fleet.Only - 1)
	}
	after := s.settings().RetryAfter
	var refused router.Refusal
	if errors.As(err, &refused) {
		after = refused.After
	}
	if reason != admission.ReasonError {
		spared := s.proxy.Spared(&k.fleet, k.variant, func(i int) bool { return s.router.Ledger().State(i) != fleet.Up })
		after = max(after, min(spared, s.settings().Overload.MaxRetryAfter))
	}
	h.Set(access.HeaderReason, reason)
	h.Set("Retry-After", strconv.Itoa(int((after+time.Second-1)/time.Second)))
	return &f
}
