package proxy

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/serving/config"
	"gearshift/serving/engines"
	"gearshift/serving/engines/gauges"
	"gearshift/serving/openai/complaint"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// Call is a routed request that a replica is to answer.
type Call struct {
	Request  *wire.Request
	Endpoint *Endpoint
	Work     *work.Work
	Variant  int           // that the client asked for, or [work.Auto]
	Owner    string        // of what replicas keep of it
	Received time.Duration // when the body was there
	Until    time.Duration // when the request's total time is over
	Alive    *KeepAlive
	Copy     io.Writer // gets what the client gets of the answer's body, if it is not nil
}

// Serve has the call answered, and passes the answer on. If the answer does not pass through the router, Serve marks
// the work as reported, and the caller estimates its end. Broken reports that part of an answer has gone out and the
// rest will not come, so the connection must break too. The client's header is not to be read after it.
func (p *Proxy) Serve(c *gin.Context, call Call) (outcome work.Outcome, tokens int, broken bool) {
	d := &dispatch{Proxy: p, Call: call, ctx: c.Request.Context(), gin: c, out: c.Writer.Header(), wants: gauges.FormatAsked(c.Request.Header), header: p.Forward(c), carrier: CarrierOf(c.Request.Context())}
	d.decided = d.Work.Request.Arrival + d.Work.Waited
	switch {
	case p.cuts && call.Endpoint.Generates:
		d.parts = call.Request.Parts()
	case p.cuts && call.Endpoint.Classifies:
		d.inputs = call.Request.Inputs()
	}
	a := d.run()
	defer a.close()
	if a.err == ErrUnseen {
		d.Work.Reported = true
		return work.Completed, 0, false
	}
	d.conclude(a)
	return d.relay(a)
}

// dispatch is a routed call on its way to a replica that answers it.
//
// Work of a language model changes nothing and costs only its time, so it is
// safe to have it done again as long as the client has seen none of it.
type dispatch struct {
	*Proxy
	Call
	ctx     context.Context // the client's: over when it leaves
	gin     *gin.Context    // nil of a batch
	batch   *Batch          // nil of a client's own request
	out     http.Header     // of the answer to the client
	header  http.Header     // what goes to each replica: the client's, which is not read again
	wants   gauges.Format   // of the router's load, that the client asks for
	tried   []int           // replicas, in order
	absent  int             // of those tried, the ones that lack the endpoint
	lost    int             // of those tried, the ones whose host was lost
	gone    []int           // these replicas
	erred   []erred         // attempts that were answered with errors
	failed  []int           // replicas of attempts that were reported as failed
	decided time.Duration   // when the replica of the next attempt was chosen
	parts   wire.Parts      // of its messages, where a variant leaves some out
	inputs  wire.Inputs     // of an input to classify, likewise
	carrier Carrier         // sends the request; nil: the replica's backend does
	// stretched says that it has gone to a longer context than it was given first.
	stretched bool
}

// run tries replicas until one begins to answer, or there is nothing left to
// try; then the last answer stands, whatever it is. The caller closes it.
func (d *dispatch) run() *answer {
	d.budget.request(d.Clock())
	defer d.mark()
	for {
		a := d.compared(d.once())
		if a.err == ErrUnseen || !d.linger(a) {
			return a
		}
		reason, unfit := d.unfit(a)
		if !unfit && d.longer(a) {
			a.close()
			continue
		}
		if !unfit && d.begin(a) {
			return a
		}
		if !unfit {
			reason = failedLost
		}
		if d.over(a) {
			if d.ctx.Err() == nil && d.Clock()-a.sent >= d.Settings().Timeouts.Total/2 {
				d.report(a, failedTimeout) // most of it was this replica's
			}
			return a
		}
		d.report(a, reason)
		if !d.again(a, reason) {
			return a
		}
		a.close()
	}
}

// begin has the client get the answer. It reports false if the host of its replica is lost, and
// not all of the answer is there.
func (d *dispatch) begin(a *answer) bool {
	if d.pending[a.replica].begin(a) || a.err == io.EOF {
		return true
	}
	a.first, a.err = nil, errGone
	return false
}

// over reports whether the client has left, or that the request's time ended with the attempt.
func (d *dispatch) over(a *answer) bool {
	return d.ctx.Err() != nil || context.Cause(a.ctx) == config.Overdue(config.PhaseTotal)
}

// once makes one attempt, or one that is hedged.
func (d *dispatch) once() *answer {
	if d.Settings().Retries.HedgeAfter > 0 && d.carrier == nil {
		return d.hedged()
	}
	a := d.attempt(d.Work.Replica)
	defer a.guard()
	d.waits()
	d.send(a)
	d.Alive.Rest()
	return a
}

// waits says that only replicas act until [reply.KeepAlive.Rest]; a stream's client may get comments.
func (d *dispatch) waits() {
	if d.Alive != nil { // the method's value would be allocated
		d.Alive.Wait(d.mark)
	}
}

// attempt prepares one at the replica.
func (d *dispatch) attempt(replica int) *answer {
	timeouts := d.Backends[replica].Timeouts.Or(d.Settings().Timeouts.PhaseTimeouts)
	now := d.Clock()
	a := &answer{replica: replica, sent: now, budget: d.Memory, watch: watch{PhaseTimeouts: timeouts, clock: d.Clock, start: now, until: d.Until}}
	a.ctx, a.cancel = context.WithCancelCause(d.ctx)
	a.pending, a.carried = &d.pending[replica], d.carrier != nil
	a.pending.add(a, d.decided)
	a.keyed, a.endpoint, a.common = d.Keyed(replica), d.Endpoint, d.Endpoint.Common
	if d.batch != nil {
		a.own = true
	} else if a.stream = d.Request.Stream; a.stream {
		a.choices = d.Request.Choices()
	}
	if len(d.tried) == 0 {
		overhead := now - d.Received - d.Work.Waited
		d.out[Overhead] = []string{strconv.FormatInt(overhead.Microseconds(), 10)}
		d.Metrics.Dispatched(overhead)
		d.Work.Overhead = overhead
	}
	d.tried = append(d.tried, replica)
	return a
}

// send makes it. It touches nothing that another attempt at the same time does.
func (d *dispatch) send(a *answer) {
	backend := &d.Backends[a.replica]
	a.model = backend.Named()
	if d.batch != nil {
		d.batch.send(a, backend.Transport)
	} else {
		a.send(backend.Transport, d.request(a))
	}
	if a.response != nil {
		d.Loads.Header(a.replica, a.response.Header)
	}
}

// request returns the client's request as the replica is to get it.
func (d *dispatch) request(a *answer) *http.Request {
	body, ctx := d.Request.For(a.model, d.cut(a.replica)), a.ctx
	if d.carrier != nil {
		ctx = context.WithValue(ctx, carriedKey{}, carried{d, a})
	}
	return (&http.Request{
		Method: http.MethodPost, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		// The host means nothing: a transport leads to one replica.
		URL: &url.URL{Scheme: "http", Host: "replica", Path: d.Endpoint.Path}, Host: "replica",
		Header: d.header, Body: body, ContentLength: body.Len(),
		GetBody: func() (io.ReadCloser, error) { return body.Again(), nil },
	}).WithContext(ctx)
}

// cut is what the replica gets to see less of the messages. Where a message would be left
// without any part it gets all of them.
func (d *dispatch) cut(replica int) wire.Cut {
	if d.inputs.All != 0 {
		if c, ok := d.inputs.Effect(d.Backends[replica].Cut); ok {
			return c
		}
		return wire.Cut{}
	}
	if d.parts.All == 0 {
		return wire.Cut{}
	}
	if c, ok := d.parts.Effect(d.Backends[replica].Cut); ok {
		return c
	}
	return wire.Cut{}
}

// report reports an attempt that failed.
func (d *dispatch) report(a *answer, reason failure) {
	a.reported = true
	if reason == failedAbsent {
		d.lacks(a)
		return
	}
	d.failed = append(d.failed, a.replica)
	if reason == failedLost { // health knows
		d.lost++
		d.gone = append(d.gone, a.replica)
		return
	}
	if a.misplaced() {
		d.Unlisted(a.replica)
	}
	switch {
	case d.full(a, reason) || d.spared(a) || reason == failedBusy || engines.NoSocket(a.err) || engines.LookupFailed(a.err):
	case reason == failedStatus && !a.misplaced():
		counted := d.Health.Erred(a.replica, true, a.sent)
		d.erred = append(d.erred, erred{a.replica, a.sent, counted})
	default:
		d.Health.Failed(a.replica, reason, a.sent)
	}
	level := slog.LevelWarn
	if reason == failedBusy {
		level = slog.LevelDebug
	}
	if !d.Log.Enabled(d.ctx, level) || !d.failures.Due(d.Clock()) {
		return
	}
	attributes := []any{"replica", d.Table.Replicas[a.replica].Name, "reason", string(reason), "attempt", len(d.tried)}
	if a.response != nil {
		attributes = append(attributes, "status", a.response.StatusCode)
	}
	if a.misplaced() {
		attributes = append(attributes, "why", a.complaint.String(), "model", a.model)
	}
	if a.err != nil && (a.err != io.EOF || reason == failedBroken) { // the end of a whole answer is no fault
		attributes = append(attributes, "error", a.err)
	}
	if n := d.failures.Omitted(); n > 0 {
		attributes = append(attributes, "lines_omitted", n)
	}
	d.Log.Log(d.ctx, level, "replica failed", attributes...)
}

// spared reports whether the attempt is no failure for the replica's health: some servers answer
// chats and have nothing for completions, which a client must not have them ejected for.
func (d *dispatch) spared(a *answer) bool {
	return a.complaint == complaint.Path && d.Endpoint.Path != ChatPath && d.Health.Answers(a.replica, d.Clock())
}

// full reports whether the attempt failed because the replica has no room, and has it get
// less for a while then. Where it sees the client's own key, 429 may be that client's quota. Engines
// whose queue is full say 503 as well as those that cannot answer at all.
func (d *dispatch) full(a *answer, reason failure) bool {
	sure := reason == failedBusy && a.keyed
	if !sure && (a.response == nil || a.response.StatusCode != http.StatusServiceUnavailable) {
		return false
	}
	spare := a.spare()
	if spare > 0 {
		d.sparings.ask(a.replica, d.Clock()+spare)
	}
	return d.Health.Busy(a.replica, sure, spare)
}

// mark names in the answer's header who gave it.
func (d *dispatch) mark() {
	d.Work.Attempts = len(d.tried)
	h := d.out
	h[Variant] = []string{d.Table.Variants[d.Work.Variant].Name}
	switch {
	case d.inputs.All != 0:
		h[Modalities] = []string{d.inputs.Used(d.cut(d.Work.Replica))}
	case d.parts.All != 0:
		h[Modalities] = []string{d.parts.Used(d.cut(d.Work.Replica))}
	}
	h[Replica], h[Attempts] = Two(d.Table.Replicas[d.Work.Replica].Name, strconv.Itoa(d.Work.Attempts))
	d.markQuality()
}

// markQuality names what was predicted of the answer's quality.
func (d *dispatch) markQuality() {
	r := &d.Work.Request
	if !r.Predicted.Known || !d.ShowsQuality() {
		return
	}
	_, best := d.Table.Range(r)
	d.out[Quality], d.out[QualityBest], d.out[QualitySure] = share(r.Predicted.Quality[d.Work.Variant]), share(best), share(r.Predicted.Sure)
}
