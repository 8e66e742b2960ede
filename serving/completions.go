package serving

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"gearshift/router"
	"gearshift/serving/access"
	"gearshift/serving/jobs"
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
	received := s.clock()
	var k call
	if fault == nil {
		defer body.Release()
		if e.Path == jobs.ClassifyPath && s.classifyJob(c, body, until) {
			return
		}
		k, fault = s.routable(c, e, body)
	}
	k.account = accountOf(c.Request.Context()).understood(k)
	if fault != nil {
		s.refuse(c, fault)
		return
	}
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

// routable returns what the client asks for, and which variants may answer it.
func (s *Server) routable(c *gin.Context, e *proxy.Endpoint, body *wire.Buffer) (k call, fault *wire.Refusal) {
	k, fault = s.understand(c.Request.Header, body, e, s.catalogue.Allowed(access.Granted(c)))
	if fault == nil && e.Continues {
		fault = s.follow(c, &k)
	}
	if fault == nil {
		fault = s.catalogue.Permit(access.Granted(c), &k.fleet, k.variant)
	}
	if fault == nil {
		fault = s.fitInputs(e, &k)
	}
	if fault == nil {
		s.proxy.Able(e, &k.fleet, k.variant)
	}
	return k, fault
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
