package serving

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving/access"
	"gearshift/serving/admin/metrics"
	"gearshift/serving/admission"
	"gearshift/serving/engines"
	"gearshift/serving/openai/proxy"
	"gearshift/serving/openai/wire"
	"gearshift/serving/quality"
	"gearshift/serving/quality/shadow"
	"gearshift/serving/work"
)

// completions answers requests to the endpoints of the replicas.
type completions struct {
	*receiver
	interpreter *interpreter
	responses   *responses
	admitter    *admitter
	proxy       *proxy.Proxy
	settler     *settler
	shadows     *shadow.Shadows // nil: no request is answered twice
}

// complete answers a request to an endpoint of the replicas, streamed or not.
func (x *completions) complete(c *gin.Context, e *proxy.Endpoint) {
	until := x.clock() + x.settings().Timeouts.Total
	var also taken
	if e.Files {
		also.media = formType
	}
	x.take(c, also, func(body *wire.Buffer) *wire.Refusal {
		received := x.clock()
		k, fault := parsed(c, body)
		if fault == nil {
			fault = x.routable(c, e, &k)
		}
		if fault == nil {
			fault = x.finish(c, e, k, received, until)
		}
		return fault
	})
}

// finish answers a call that was understood.
func (x *completions) finish(c *gin.Context, e *proxy.Endpoint, k call, received, until time.Duration) *wire.Refusal {
	if !x.memory.Answers.Take(answerBuffer) {
		return x.memory.Short(c.Writer.Header())
	}
	defer x.memory.Answers.Give(answerBuffer)
	var alive *proxy.KeepAlive
	if k.Stream && proxy.CarrierOf(c.Request.Context()) == nil { // a carrier sends nothing before the answer
		alive = x.reply.KeepAlive(c)
		defer alive.Stop()
	}
	w, fault := x.admitter.enter(c, e, k, until, alive)
	if w == nil {
		return fault
	}
	var outcome work.Outcome
	var tokens int
	again := x.drawn(c.Request.Header, e, &k, w)
	if again != nil {
		defer func() { x.shadows.End(again, w.Variant, outcome == work.Completed) }()
	}
	// On a panic the outcome is still its zero value, which says so.
	defer func() { x.conclude(e, w, &k, outcome, tokens) }()

	call := proxy.Call{Request: k.Request, Endpoint: e, Work: w, Variant: k.variant, Received: received, Until: until, Alive: alive}
	if again != nil {
		call.Copy = again
	}
	if e.Stores {
		call.Owner = x.responses.tenant(c)
	}
	var broken bool
	if outcome, tokens, broken = x.proxy.Serve(c, call); broken {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// conclude ends the work. It estimates the length and the duration of an answer that the router does not see.
func (x *completions) conclude(e *proxy.Endpoint, w *work.Work, k *call, outcome work.Outcome, tokens int) {
	if !w.Reported || outcome != work.Completed {
		x.settler.settle(w, outcome, tokens)
		return
	}
	steps := 0 // an answer without tokens takes about the time of one, and a count of tokens none
	switch {
	case e.Generates:
		tokens = int(x.admitter.queue.Expected(0, max(1, k.fleet.Answers), k.MaxTokens()))
		steps = tokens
	case w.Tokenless:
		steps = 1
	}
	sent := w.Request.Arrival + w.Waited
	time.AfterFunc(w.Forecast(steps)-(x.clock()-sent), func() {
		x.settler.settle(w, outcome, tokens)
		x.admitter.engines.Controller().Unseen(w.Replica, sent)
	})
}

// routable finds out what the client asks for, and which variants may answer it.
func (x *completions) routable(c *gin.Context, e *proxy.Endpoint, k *call) *wire.Refusal {
	grants := access.Granted(c)
	k.scored, k.owner, k.id = e.Generates, x.responses.tenant(c), wire.Field(c.Writer.Header(), proxy.RequestID)
	fault := x.interpreter.understand(c.Request.Header, k, x.interpreter.catalogue.Allowed(grants))
	if by := proxy.CarrierOf(c.Request.Context()); by != nil {
		k.fleet.Without = by.Hidden()
	}
	if fault == nil && e.Continues {
		fault = x.responses.follow(c, k)
	}
	if fault == nil {
		fault = x.interpreter.catalogue.Permit(grants, &k.fleet, k.variant)
	}
	if fault == nil {
		x.proxy.Able(e, &k.fleet, k.variant)
	}
	return fault
}

// headerWaited is how long the request waited for room.
const headerWaited = "X-Gearshift-Waited-Ms"

// admitter gives calls their places on replicas, or refuses them.
type admitter struct {
	settings func() *Config
	clock    work.Clock
	log      *slog.Logger
	ledger   *fleet.Ledger
	reply    *proxy.Writer
	metrics  *metrics.Requests
	adapter  *work.Adapter
	queue    *admission.Queue
	contexts *contextLengths
	loads    *loads
	proxy    *proxy.Proxy
	engines  *engines.Engines

	predictors *quality.Predictors

	onFallback atomic.Bool // the last choice was a fallback
}

// enter routes the call, after a wait for room if it takes one, of which the request's
// time bounds how long. Without work the request is at fault, or has been answered.
func (x *admitter) enter(c *gin.Context, e *proxy.Endpoint, k call, until time.Duration, alive *proxy.KeepAlive) (*work.Work, *wire.Refusal) {
	tokens := int64(-1) // no budget pays for what no model does
	switch {
	case e.Generates:
		tokens = x.queue.Expected(k.fleet.PromptTokens, max(1, k.fleet.Answers), k.MaxTokens())
	case !e.Counts:
		tokens = x.queue.Expected(k.fleet.PromptTokens, 0, k.MaxTokens())
	}
	key, spend, fault := claim(c, x.queue, k.fleet.Task, tokens)
	if fault != nil {
		return nil, fault
	}
	x.contexts.fit(&k)
	before := x.clock()
	w := x.adapter.Arrive(k.fleet)
	w.Spend, w.Prompt, w.Ticket = spend, k.prompt, k.ticket
	w.Streams = e.Generates && k.Stream
	w.Tokenless = !e.Generates && !e.Counts
	if e.Generates && !k.Stream {
		// Nobody sees how far an answer in one piece has come. Of those that run at a
		// time, each has generated a mean answer in the mean, if lengths are geometric.
		w.Unseen = int(x.queue.Output()) * max(1, k.fleet.Answers)
	}
	observer := k.account.observer(k.fleet)
	alive.Wait(nil)
	err := x.queue.Admit(c.Request.Context(), w, k.variant, observer, key, until)
	alive.Rest()
	if err != nil && !x.contexts.unfit(w, k, err) {
		spend.End(time.Now(), 0)
		x.shed(c, err, k, key)
		return nil, nil
	}
	h := c.Writer.Header()
	if w.Waited > 0 {
		h.Set(headerWaited, strconv.FormatInt(w.Waited.Milliseconds(), 10))
	}
	took := x.clock() - before - w.Waited
	x.loads.inform(c, w)
	x.begun(w, k, took, h)
	return w, nil
}

// claim finds the flow of a request for a task, and reserves tokens of its key's budgets; none if tokens is
// negative.
func claim(c *gin.Context, q *admission.Queue, task int, tokens int64) (key admission.FlowKey, spend access.Spend, fault *wire.Refusal) {
	key, fault = q.Key(c.Request.Header, task, access.Tenant(c), access.Granted(c).Classes)
	if fault == nil && tokens >= 0 {
		spend, fault = access.Reserve(c, tokens)
	}
	if a := accountOf(c.Request.Context()); a != nil && fault == nil {
		a.Tenant = key.Tenant
	}
	return key, spend, fault
}

// begin routes the call of a caller that dispatches by itself, at once. Without a place the request is
// answered, and the work nil.
func (x *admitter) begin(c *gin.Context, k call, unseen int, spend access.Spend) *work.Work {
	x.contexts.fit(&k)
	before := x.clock()
	w := x.adapter.Arrive(k.fleet)
	w.Spend = spend
	key := x.queue.Default(k.fleet.Task)
	w.Request.First = x.queue.First(key)
	w.Reported = true
	w.Unseen = unseen // the caller does not report how far the answer is
	if err := w.Begin(k.variant, k.account.observer(k.fleet)); err != nil && !x.contexts.unfit(w, k, err) {
		spend.End(time.Now(), 0)
		x.shed(c, x.queue.Refused(err, key), k, key)
		return nil
	}
	x.begun(w, k, x.clock()-before, c.Writer.Header())
	return w
}

// begun enters work that has its place, after a decision that took so long, and says
// in the answer's header who routed it.
func (x *admitter) begun(w *work.Work, k call, took time.Duration, h http.Header) {
	x.metrics.Chosen(w, took)
	w.Candidate = k.onTrial
	x.predictors.Chosen(k.Request, &w.Request, w.Variant, k.onTrial)
	x.logFallback(w)
	h[proxy.Variant], h[headerPolicy] = proxy.Two(x.ledger.Table().Variants[w.Variant].Name, w.Policy)
	if w.Fallback {
		h.Set(headerFallback, w.Reason)
	}
	k.account.routed(w, took, h)
}

// shed counts a request that is not begun, and answers it.
func (x *admitter) shed(c *gin.Context, err error, k call, by admission.FlowKey) {
	reason := admission.ReasonOf(err)
	if k.account != nil {
		k.account.shed = reason
	}
	x.metrics.Shed(k.fleet.Task, x.queue.Class(by.Class), reason)
	if reason == admission.ReasonError {
		x.log.Error("cannot route", "error", err)
	}
	f := admission.RefusalFor(reason)
	if k.fleet.Only > 0 && reason == admission.ReasonNoReplica {
		f.Message = lost(x.ledger.Table(), k.fleet.Only-1)
	}
	after := x.settings().RetryAfter
	var refused router.Refusal
	if errors.As(err, &refused) {
		after = refused.After
		if refused.Awaited > 0 {
			f.Message = x.asleep(refused)
		}
	}
	if reason != admission.ReasonError {
		spared := x.proxy.Spared(&k.fleet, k.variant, func(i int) bool { return x.ledger.State(i) != fleet.Up })
		after = max(after, min(spared, x.settings().Overload.MaxRetryAfter))
	}
	h := c.Writer.Header()
	h.Set(access.HeaderReason, reason)
	h.Set("Retry-After", strconv.Itoa(int((after+time.Second-1)/time.Second)))
	x.reply.Fail(c, f.Status, f.Error)
}

// asleep returns the message of a refusal: which model is asleep or not loaded, and since when.
func (x *admitter) asleep(r router.Refusal) string {
	t, is, since := x.ledger.Table(), fleet.Down, time.Duration(0)
	for _, i := range t.ReplicasOf(r.Awaited - 1) {
		s, at := x.engines.Rests(i)
		if s == fleet.Up { // and it takes nothing
			s = fleet.Draining
		}
		if soonest := map[fleet.State]int{fleet.Loading: 4, fleet.Warm: 3, fleet.Draining: 2, fleet.Cold: 1}; soonest[s] > soonest[is] {
			is, since = s, at
		} else if s == is {
			since = max(since, at)
		}
	}
	name, text := t.Variants[r.Awaited-1].Name, map[fleet.State]string{
		fleet.Loading: "is still being loaded or woken", fleet.Warm: "is asleep", fleet.Draining: "takes no new requests", fleet.Cold: "is not loaded", fleet.Down: "is down",
	}[is]
	if (is == fleet.Warm || is == fleet.Cold) && since > 0 {
		text = "has been " + strings.TrimPrefix(text, "is ") + " since " + time.Now().Add(since-x.clock()).UTC().Format(time.RFC3339)
	}
	why := "the request was held for " + x.settings().Hold.For.String()
	if r.Reason == router.RefusedHeld {
		why = "too many requests are held for a model already"
	}
	return fmt.Sprintf("model %q %s, and %s; try again later", name, text, why)
}

// logFallback logs when fallbacks begin and end.
func (x *admitter) logFallback(w *work.Work) {
	if w.Ruled() || w.Reason == router.ReasonLate || w.Reason == router.ReasonFloor || w.Reason == router.ReasonLimited || w.Reason == router.ReasonContext || x.onFallback.Load() == w.Fallback || x.onFallback.Swap(w.Fallback) == w.Fallback {
		return
	}
	if w.Fallback {
		x.log.Warn("the policy does not route; a fallback does", "reason", w.Reason, "by", w.Policy)
	} else {
		x.log.Info("the policy routes again", "policy", w.Policy)
	}
}

// settler ends work.
type settler struct {
	metrics  *metrics.Requests
	watchers []Watcher
}

// watching is a function as a [Watcher].
type watching func(w *work.Work, r work.Result)

// Ended implements [Watcher].
func (f watching) Ended(w *work.Work, r work.Result) { f(w, r) }

// settle ends work and reports its end, once.
func (x *settler) settle(w *work.Work, outcome work.Outcome, tokens int) (work.Result, bool) {
	r, first := w.End(outcome, tokens)
	if !first {
		return r, false
	}
	w.Charge(r)
	x.metrics.Ended(w, r)
	for _, watcher := range x.watchers {
		watcher.Ended(w, r)
	}
	if w.Ending != nil {
		w.Ending.Over(r)
	}
	return r, true
}

// answerBuffer is what a request is charged for passing on an answer.
const answerBuffer = 32 << 10
