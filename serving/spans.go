package serving

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"gearshift/router/fleet"
	"gearshift/serving/admin/overview"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// The attributes of spans: OpenTelemetry's for HTTP and for generative AI, whose
// names are set by its semantic conventions, and our own. None holds text of
// prompts or answers.
const (
	attrMethod    = attribute.Key("http.request.method")
	attrRoute     = attribute.Key("http.route")
	attrStatus    = attribute.Key("http.response.status_code")
	attrErrorType = attribute.Key("error.type")

	attrOperation     = attribute.Key("gen_ai.operation.name")
	attrProvider      = attribute.Key("gen_ai.provider.name")
	attrRequestModel  = attribute.Key("gen_ai.request.model")
	attrResponseModel = attribute.Key("gen_ai.response.model")
	attrOutputTokens  = attribute.Key("gen_ai.usage.output_tokens")
	attrFirstChunk    = attribute.Key("gen_ai.response.time_to_first_chunk") // seconds

	attrRequestID     = attribute.Key("gearshift.request_id")
	attrTask          = attribute.Key("gearshift.task")
	attrTenant        = attribute.Key("gearshift.tenant")
	attrVariant       = attribute.Key("gearshift.variant")
	attrReplica       = attribute.Key("gearshift.replica")
	attrHost          = attribute.Key("gearshift.host")
	attrPolicy        = attribute.Key("gearshift.policy")
	attrFallback      = attribute.Key("gearshift.fallback")
	attrOutcome       = attribute.Key("gearshift.outcome")
	attrAttempt       = attribute.Key("gearshift.attempt")
	attrAttempts      = attribute.Key("gearshift.attempts")
	attrDeadline      = attribute.Key("gearshift.deadline_ms") // per output token
	attrFirstDeadline = attribute.Key("gearshift.first_token_deadline_ms")
	attrTotalDeadline = attribute.Key("gearshift.total_deadline_ms")
	attrPerToken      = attribute.Key("gearshift.per_token_ms") // from arrival to the end
	attrMet           = attribute.Key("gearshift.deadline_met")
	attrUtility       = attribute.Key("gearshift.utility")
	attrWaited        = attribute.Key("gearshift.waited_ms") // for room
	attrOverhead      = attribute.Key("gearshift.overhead_us")
	attrPrompt        = attribute.Key("gearshift.prompt_tokens_estimate")
	attrRate          = attribute.Key("gearshift.arrival_rate")
	attrInFlight      = attribute.Key("gearshift.in_flight")
	attrQuality       = attribute.Key("gearshift.predicted_quality")
	attrSure          = attribute.Key("gearshift.predicted_sure")
	attrWhy           = attribute.Key("gearshift.why")
)

// provider is what the conventions call who answers, as a client sees it.
const provider = "gearshift"

// errGivenUp says that an answer was not read to its end.
var errGivenUp = errors.New("the answer was not read to its end")

// contexts reads and writes the W3C headers of a trace.
var contexts propagation.TraceContext

// span is a trace's span, or nothing.
type span struct {
	trace.Span
	ctx context.Context // holds it, for its children
}

func (x span) on() bool { return x.Span != nil }

// recorded says that the span was picked to be recorded. One that was not still
// has a context to pass on.
func (x span) recorded() bool { return x.Span != nil && x.IsRecording() }

// startSpan begins the span of a request, under the client's own if that sent one.
func (x *accounts) startSpan(ctx context.Context, a *Account, c *gin.Context) context.Context {
	if x.tracer == nil {
		return ctx
	}
	ctx = contexts.Extract(ctx, propagation.HeaderCarrier(c.Request.Header))
	a.span.ctx, a.span.Span = x.tracer.Start(ctx, c.Request.Method+" "+c.FullPath(),
		trace.WithTimestamp(a.At), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attrMethod.String(c.Request.Method), attrRoute.String(c.FullPath()),
			attrOperation.String(a.Operation), attrProvider.String(provider), attrRequestID.String(a.ID)))
	return a.span.ctx
}

// decideSpan is the span of a decision that has just been made.
func (a *Account) decideSpan(took time.Duration) {
	if !a.span.recorded() {
		return
	}
	now := time.Now()
	_, x := a.accounts.tracer.Start(a.span.ctx, "decide", trace.WithTimestamp(now.Add(-took)))
	x.SetAttributes(a.choice()...)
	if e := a.Explanation; e != nil {
		x.SetAttributes(attrRate.Float64(e.Rate), attrInFlight.Int(e.InFlight), attrWhy.String(e.Why))
	}
	x.End(trace.WithTimestamp(now))
}

// choice is where the work is now, and by whose choice.
func (a *Account) choice() []attribute.KeyValue {
	w, t := a.Work, a.accounts.table
	replica := t.Replicas[w.Replica]
	list := []attribute.KeyValue{
		attrTask.String(t.Tasks[w.Request.Task].Name), attrVariant.String(t.Variants[w.Variant].Name),
		attrReplica.String(replica.Name), attrHost.String(t.Hosts[replica.Host].Name), attrPolicy.String(w.Policy),
	}
	if w.Fallback {
		list = append(list, attrFallback.String(w.Reason))
	}
	if q := &w.Request.Predicted; q.Known {
		list = append(list, attrQuality.Float64(overview.Short(float64(q.Quality[w.Variant]))), attrSure.Float64(overview.Short(float64(q.Sure))))
	}
	return list
}

// attemptSpan begins the span of sending the request to a replica, and returns it
// with the request that carries its context.
func (a *Account) attemptSpan(r *http.Request, replica, n int) (*http.Request, span) {
	t := a.accounts.table
	variant := t.Variants[t.Replicas[replica].Variant].Name
	ctx, x := a.accounts.tracer.Start(trace.ContextWithSpan(r.Context(), a.span.Span), a.Operation+" "+variant,
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attrMethod.String(r.Method), attrOperation.String(a.Operation), attrRequestModel.String(variant),
			attrReplica.String(t.Replicas[replica].Name), attrHost.String(t.Hosts[t.Replicas[replica].Host].Name), attrAttempt.Int(n)))
	r = r.Clone(ctx)
	contexts.Inject(ctx, propagation.HeaderCarrier(r.Header))
	return r, span{Span: x, ctx: ctx}
}

// endAttempt ends the span of an attempt: by its answer, or by an error.
func (x span) endAttempt(status int, err error) {
	if status > 0 {
		x.SetAttributes(attrStatus.Int(status))
	}
	switch {
	case err != nil:
		x.SetStatus(codes.Error, err.Error())
	case status >= http.StatusBadRequest:
		x.SetStatus(codes.Error, http.StatusText(status))
	}
	x.End()
}

// endSpan ends the span of a request that is over.
func (a *Account) endSpan() {
	if !a.span.recorded() {
		return
	}
	x := a.span
	outcome := a.Outcome()
	x.SetAttributes(attrStatus.Int(a.Status), attrOutcome.String(outcome))
	if a.Asked != "" {
		x.SetAttributes(attrRequestModel.String(a.Asked))
	}
	if a.Tenant != "" {
		x.SetAttributes(attrTenant.String(a.Tenant))
	}
	if a.Work != nil {
		x.SetAttributes(a.choice()...)
		x.SetAttributes(a.worth()...)
	}
	if a.Status >= http.StatusInternalServerError || a.Work != nil && !a.Result.Outcome.Fine() {
		kind := a.Code
		if kind == "" {
			kind = outcome
		}
		x.SetAttributes(attrErrorType.String(kind))
		x.SetStatus(codes.Error, kind)
	}
	x.End()
}

// worth is how the work ended.
func (a *Account) worth() []attribute.KeyValue {
	w, r, t := a.Work, a.Result, a.accounts.table
	list := []attribute.KeyValue{
		attrResponseModel.String(t.Variants[w.Variant].Name), attrAttempts.Int(a.Attempts), attrOverhead.Int64(a.Overhead.Microseconds()),
		attrPrompt.Int(w.Request.PromptTokens),
	}
	d := t.Tasks[w.Request.Task].Deadlines(&w.Request)
	for _, deadline := range []struct {
		key attribute.Key
		is  time.Duration
	}{{attrDeadline, d.PerToken}, {attrFirstDeadline, d.FirstToken}, {attrTotalDeadline, d.Total}} {
		if deadline.is > 0 {
			list = append(list, deadline.key.Float64(fleet.Milliseconds(deadline.is)))
		}
	}
	if w.Waited > 0 {
		list = append(list, attrWaited.Float64(fleet.Milliseconds(w.Waited)))
	}
	if r.Tokens > 0 {
		list = append(list, attrOutputTokens.Int(r.Tokens))
	}
	if w.FirstToken > 0 {
		list = append(list, attrFirstChunk.Float64(w.FirstToken.Seconds()))
	}
	if r.Judged {
		list = append(list, attrMet.Bool(r.Met), attrUtility.Float64(r.Utility))
	}
	if r.PerToken > 0 {
		list = append(list, attrPerToken.Float64(fleet.Milliseconds(r.PerToken)))
	}
	return list
}

// countedTransport is the way to a replica for requests that an account is kept of: it
// counts them and, where they are traced, gives each its span, whose context the
// replica gets.
type countedTransport struct {
	http.RoundTripper
	replica int
}

// RoundTrip implements [http.RoundTripper].
func (t countedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	a := accountOf(r.Context())
	if a == nil {
		return t.RoundTripper.RoundTrip(r)
	}
	n := a.attempted.Add(1)
	if !a.span.on() {
		return t.RoundTripper.RoundTrip(r)
	}
	r, span := a.attemptSpan(r, t.replica, int(n))
	response, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		span.endAttempt(0, err)
		return response, err
	}
	response.Body = &spannedBody{ReadCloser: response.Body, end: func(err error) { span.endAttempt(response.StatusCode, err) }}
	return response, nil
}

// spannedBody ends a span with the body of an answer.
type spannedBody struct {
	io.ReadCloser
	once sync.Once
	end  func(error)
}

// Read implements [io.Reader].
func (b *spannedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch err {
	case nil:
	case io.EOF:
		b.once.Do(func() { b.end(nil) })
	default:
		b.once.Do(func() { b.end(err) })
	}
	return n, err
}

// Close implements [io.Closer]. A body that is closed before its end was given up.
func (b *spannedBody) Close() error {
	b.once.Do(func() { b.end(errGivenUp) })
	return b.ReadCloser.Close()
}
