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

// complete answers a request to an endpoint of the replicas, streamed or not.
func (s *Server) complete(c *gin.Context, e *proxy.Endpoint) {
	until := s.clock() + s.settings().Timeouts.Total
	var also taken
	if e.Files {
		also.media = formType
	}
	body, fault := s.read(c, also)
	if fault != nil {
		s.refuse(c, fault)
		return
	}
	defer body.Release()
	received := s.clock()
	k, fault := s.parsed(c, body)
	if fault == nil {
		fault = s.routable(c, e, &k)
	}
	if fault != nil {
		s.refuse(c, fault)
		return
	}
	s.finish(c, e, k, received, until)
}

// finish answers a call that was understood.
func (s *Server) finish(c *gin.Context, e *proxy.Endpoint, k call, received, until time.Duration) {
	if !s.memory.Answers.Take(answerBuffer) {
		s.memory.LogShortage("answers")
		s.refuse(c, s.noMemory(c, "for answers"))
		return
	}
	defer s.memory.Answers.Give(answerBuffer)
	var alive *proxy.KeepAlive
	if k.Stream {
		alive = s.reply.KeepAlive(c)
		defer alive.Stop()
	}
	w, fault := s.enter(c, e, k, until, alive)
	if fault != nil {
		s.fail(c, fault.Status, fault.Error)
		return
	}
	var outcome work.Outcome
	var tokens int
	// On a panic the outcome is still its zero value, which says so.
	defer func() { s.settle(w, outcome, tokens) }()

	call := proxy.Call{Request: k.Request, Endpoint: e, Work: w, Variant: k.variant, Received: received, Until: until, Alive: alive}
	if e.Stores {
		call.Owner = s.tenant(c)
	}
	var broken bool
	if outcome, tokens, broken = s.proxy.Serve(c, call); broken {
		panic(http.ErrAbortHandler)
	}
}

// routable finds out what the client asks for, and which variants may answer it.
func (s *Server) routable(c *gin.Context, e *proxy.Endpoint, k *call) *wire.Refusal {
	fault := s.understand(c.Request.Header, k, s.catalogue.Allowed(access.Granted(c)))
	if fault == nil && e.Continues {
		fault = s.follow(c, k)
	}
	if fault == nil {
		fault = s.catalogue.Permit(access.Granted(c), &k.fleet, k.variant)
	}
	if fault == nil {
		s.proxy.Able(e, &k.fleet, k.variant)
	}
	return fault
}

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

// logFallback logs when fallbacks begin and end.
func (s *Server) logFallback(w *work.Work) {
	if w.Policy == router.Pinned || w.Reason == router.ReasonLate || w.Reason == router.ReasonFloor || w.Reason == router.ReasonLimited || w.Reason == router.ReasonContext || s.onFallback.Load() == w.Fallback || s.onFallback.Swap(w.Fallback) == w.Fallback {
		return
	}
	if w.Fallback {
		s.log.Warn("the policy does not route; a fallback does", "reason", w.Reason, "by", w.Policy)
	} else {
		s.log.Info("the policy routes again", "policy", w.Policy)
	}
}

// settle ends work and reports its end, once.
func (s *Server) settle(w *work.Work, outcome work.Outcome, tokens int) (work.Result, bool) {
	r, first := w.End(outcome, tokens)
	if !first {
		return r, false
	}
	w.Charge(r)
	s.metrics.Ended(w, r)
	for _, watcher := range s.watchers {
		watcher.Ended(w, r)
	}
	if w.Ending != nil {
		w.Ending.Over(r)
	}
	return r, true
}

// answerBuffer is what a request is charged for passing on an answer.
const answerBuffer = 32 << 10
