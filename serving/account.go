package serving

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/trace"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving/access"
	"gearshift/serving/admin/overview"
	"gearshift/serving/admission"
	"gearshift/serving/config"
	"gearshift/serving/jobs"
	"gearshift/serving/openai/proxy"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// Account is what operators see of one request: what it asked for, how it
// was routed and why, and how it ended. It holds no text of prompts or answers.
// Up to the end it belongs to the request's own goroutines.
type Account struct {
	// ID is the request's, as in the header of its answer.
	ID string
	// Operation is what the endpoint does, in OpenTelemetry's words ("chat",
	// "text_completion"), or "route" for a caller that dispatches by itself.
	Operation string
	// Asked is the model that the client asked for, cut if it is long; empty if
	// that is not known.
	Asked string
	// Tenant is on whose behalf the request came; empty if that is not known.
	Tenant string
	// At is when it arrived, by the calendar.
	At time.Time
	// Status is that of the answer, 499 for a client that left before it, and
	// Code that of the error in it, if it is one of the router's own.
	Status int
	Code   string
	// Attempts counts the replicas that the request was sent to.
	Attempts int
	// Overhead is the time from the end of the body to dispatch.
	Overhead time.Duration
	// Work is nil unless the request was routed; Result is how it ended,
	// zero before the end.
	Work   *work.Work
	Result work.Result
	// Job is how the job ended that the request was; nil if it was none, or was not begun.
	Job *jobs.Result
	// Explanation says what the choice is based on. It is nil unless the client, or an
	// [Observer], asked for it.
	Explanation *overview.Explanation

	accounts  *accounts
	conn      string             // the remote address of the connection
	forwarded []string           // whom proxies say that it is for
	asked     bool               // the client wants the explanation
	ended     bool               // the answer and the work
	faulty    bool               // the request is itself at fault
	shed      string             // why it was not begun; empty if it was
	explainer *overview.Observer // nil if no explanation is wanted
	span      span               // of the request, if it is traced
	open      atomic.Int32       // what must end before the request is over
	attempted atomic.Int32
}

// Observer observes each request to an endpoint that routes, however it ends.
// Its methods are called from any goroutine, and must not wait. They must neither change
// nor keep an Account.
type Observer interface {
	// Curious says whether the next decision should be explained. That takes some
	// microseconds, so not each should be.
	Curious() bool
	// Routed is called once the request has its place.
	Routed(a *Account)
	// Over is called once the request is answered and its work is over.
	Over(a *Account)
}

// accountKey is where the context of a request holds its account.
type accountKey struct{}

// accountOf is the account of the request; nil if none is kept.
func accountOf(ctx context.Context) *Account {
	a, _ := ctx.Value(accountKey{}).(*Account)
	return a
}

// accounts keeps an account of each request to an endpoint that routes, and has the observers see it.
type accounts struct {
	table     *fleet.Table
	ledger    *fleet.Ledger
	running   *config.Running
	tracer    trace.Tracer // nil if nothing is traced
	observers []Observer
	known     known
	loads     *loads
}

// keep opens one for a request that may be routed, and closes it however the handler ends.
func (x *accounts) keep(c *gin.Context) {
	operation := x.known[c.FullPath()].operation
	if operation == "" || c.Request.Method != http.MethodPost { // of what else has the path nothing is routed
		return
	}
	a := &Account{ID: wire.Field(c.Writer.Header(), proxy.RequestID), Operation: operation, At: time.Now(), accounts: x, conn: c.Request.RemoteAddr, forwarded: c.Request.Header[proxy.ForwardedFor]}
	a.asked = wire.Field(c.Request.Header, headerExplain) == "1"
	a.open.Store(1)
	ctx := context.WithValue(c.Request.Context(), accountKey{}, a)
	c.Request = c.Request.WithContext(x.startSpan(ctx, a, c))
	defer func() {
		a.Status = c.Writer.Status()
		if a.Tenant == "" { // refused before it was asked on whose behalf it came
			a.Tenant = access.Tenant(c)
		}
		a.close()
	}()
	c.Next()
}

// Client is the address that the request came from, as far as it is known.
func (a *Account) Client() string {
	if a.accounts == nil {
		return ""
	}
	return a.accounts.running.Load().Proxies.Client(a.conn, a.forwarded)
}

// longestModel bounds what is kept of a model's name, which may be anything, in bytes.
const longestModel = 128

// understood notes the model that the client asked for.
func (a *Account) understood(model string) {
	if a.Asked = model; len(model) > longestModel {
		a.Asked = strings.ToValidUTF8(model[:longestModel], "") + "…"
	}
}

// routed notes that the request has its place, after a decision that took so
// long. The answer's header may say what it is based on.
func (a *Account) routed(w *work.Work, took time.Duration, h http.Header) {
	if a == nil {
		return
	}
	a.Work, w.Ending = w, ending{a}
	if a.explainer != nil {
		a.Explanation = a.explainer.Explanation
		a.accounts.loads.explain(w, a.Explanation)
	}
	a.open.Add(1)
	if a.asked && a.Explanation != nil {
		h.Set(headerExplain, a.Explanation.Header())
	}
	a.decideSpan(took)
	for _, o := range a.accounts.observers {
		o.Routed(a)
	}
}

// ending hears how the work of an account ends.
type ending struct{ account *Account }

// Over notes how the work ended.
func (e ending) Over(r work.Result) {
	a := e.account
	a.Result, a.Attempts, a.Overhead = r, int(a.attempted.Load()), a.Work.Overhead
	a.close()
}

// close is called by what the request waits for. The last call notifies the observers.
func (a *Account) close() {
	if a.open.Add(-1) > 0 {
		return
	}
	a.ended = true
	a.endSpan()
	for _, o := range a.accounts.observers {
		o.Over(a)
	}
}

// Ended says that the answer and the work are over. Before that, neither is known.
func (a *Account) Ended() bool { return a.ended }

// Outcome is how the request ended, in one word for logs and pages: that of its
// work, or why there was none.
func (a *Account) Outcome() string {
	switch {
	case a.Job != nil && jobOutcome(a.Job) != "" && !a.faulty:
		return jobOutcome(a.Job)
	case a.Work != nil:
		return a.Result.Outcome.String()
	case a.Status == statusClientLeft || a.shed == admission.ReasonCancelled:
		return work.Cancelled.String()
	case a.shed != "" && a.shed != admission.ReasonError: // its status is 200 if comments have gone out
		return OutcomeRejected
	case a.faulty || a.Status < http.StatusInternalServerError && a.Status != http.StatusTooManyRequests:
		return OutcomeRefused
	case a.Status == http.StatusInternalServerError:
		return work.Failed.String()
	}
	return OutcomeRejected
}

// statusClientLeft is what proxies log for a client that left; no client reads it.
const statusClientLeft = 499

// What [Account.Outcome] says of requests that were not routed.
const (
	// OutcomeRefused: the request was at fault, or its key has no more to spend.
	OutcomeRefused = "refused"
	// OutcomeRejected: there was no room for it, or no replica.
	OutcomeRejected = "rejected"
)

// observer sees the choice if an explanation of it is wanted; nil if not.
func (a *Account) observer(r fleet.Request) router.Observer {
	if a == nil {
		return nil
	}
	wanted := a.asked
	for _, o := range a.accounts.observers {
		wanted = o.Curious() || wanted
	}
	if !wanted {
		return nil
	}
	a.explainer = overview.Explain(r, a.accounts.ledger)
	return a.explainer
}
