package serving

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/serving/complaint"
	"gearshift/serving/config"
	"gearshift/serving/probes"
	"gearshift/serving/work"
)

// dispatch is a routed call on its way to a replica that answers it.
//
// Work of a language model changes nothing and costs only its time, so it is
// safe to have it done again as long as the client has seen none of it.
type dispatch struct {
	*Server
	ctx      context.Context // the client's: over when it leaves
	gin      *gin.Context
	call     call
	work     *work.Work
	endpoint *endpoint
	owner    string        // of what replicas keep of it
	header   http.Header   // what goes to each replica: the client's, which nobody reads again
	received time.Duration // when the body was there
	until    time.Duration // when the request's total time is over
	tried    []int         // replicas, in order
	lingers  bool          // comments have gone out, and nothing else
	absent   int           // of those tried, the ones that lack the endpoint
	// stretched says that it has gone to a longer context than it was given first.
	stretched bool
}

// run tries replicas until one begins to answer, or there is nothing left to
// try; then the last answer stands, whatever it is. The caller closes it.
func (d *dispatch) run() *answer {
	d.budget.request(d.clock())
	defer d.mark()
	for {
		a := d.once()
		if !d.linger(a) {
			return a
		}
		reason, unfit := a.unfit()
		if !unfit && d.longer(a) {
			a.close()
			continue
		}
		if !unfit {
			return a
		}
		if d.over(a) {
			if d.ctx.Err() == nil && d.clock()-a.sent >= d.settings().Timeouts.Total/2 {
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

// over says that the client has left, or that the request's time ended with the attempt.
func (d *dispatch) over(a *answer) bool {
	return d.ctx.Err() != nil || context.Cause(a.ctx) == config.Overdue(config.PhaseTotal)
}

// once makes one attempt, or one that is hedged.
func (d *dispatch) once() *answer {
	if d.settings().Retries.HedgeAfter > 0 {
		return d.hedged()
	}
	a := d.attempt(d.work.Replica)
	defer a.guard()
	d.send(a)
	return a
}

// attempt prepares one at the replica.
func (d *dispatch) attempt(replica int) *answer {
	timeouts := d.backends[replica].Timeouts.Or(d.settings().Timeouts.PhaseTimeouts)
	now := d.clock()
	a := &answer{replica: replica, sent: now, budget: d.memory.Answers, watch: watch{PhaseTimeouts: timeouts, clock: d.clock, start: now, until: d.until}}
	a.ctx, a.cancel = context.WithCancelCause(d.ctx)
	a.keyed, a.endpoint, a.common = d.keyed(replica), d.endpoint, d.endpoint.common
	if a.stream = d.call.Stream; a.stream {
		a.choices = d.call.Choices()
	}
	if len(d.tried) == 0 {
		overhead := now - d.received - d.work.Waited
		d.gin.Writer.Header()[headerOverhead] = []string{strconv.FormatInt(overhead.Microseconds(), 10)}
		d.metrics.Dispatched(overhead)
		d.call.account.spent(overhead)
	}
	d.tried = append(d.tried, replica)
	return a
}

// keyed says that what key the replica sees, if any, is the router's own.
func (s *Server) keyed(replica int) bool {
	forwarder, ok := s.backends[replica].Transport.(Forwarder)
	return ok && !forwarder.ForwardsAuthorization()
}

// modelOf is the name by which the replica knows its variant.
func (s *Server) modelOf(replica int) string {
	if model := s.backends[replica].Model; model != "" {
		return model
	}
	return s.table.Variants[s.table.Replicas[replica].Variant].Name
}

// send makes it. It touches nothing that another attempt at the same time does.
func (d *dispatch) send(a *answer) {
	backend := d.backends[a.replica]
	a.model = d.modelOf(a.replica)
	body := d.call.WithModel(a.model)
	out := (&http.Request{
		Method: http.MethodPost, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		// The host means nothing: a transport leads to one replica.
		URL: &url.URL{Scheme: "http", Host: "replica", Path: d.endpoint.path}, Host: "replica",
		Header: d.header, Body: body, ContentLength: body.Len(),
		GetBody: func() (io.ReadCloser, error) { return body.Again(), nil },
	}).WithContext(a.ctx)
	p := &d.pending[a.replica]
	p.add(a)
	defer p.remove(a)
	a.send(attempt{backend.Transport, d.Server, a.replica}, out)
}

// report tells of an attempt that failed.
func (d *dispatch) report(a *answer, reason failure) {
	a.reported = true
	if reason == failedAbsent {
		d.lacks(a)
		return
	}
	if a.misplaced() {
		d.engines.Unlisted(a.replica)
	}
	if !d.full(a, reason) && !d.spared(a) && reason != failedBusy && !probes.Short(a.err) && !probes.Unnamed(a.err) {
		d.health.Failed(a.replica, reason, a.sent)
	}
	level := slog.LevelWarn
	if reason == failedBusy {
		level = slog.LevelDebug
	}
	if !d.log.Enabled(d.ctx, level) || !d.failures.Due(d.clock()) {
		return
	}
	attributes := []any{"replica", d.table.Replicas[a.replica].Name, "reason", string(reason), "attempt", len(d.tried)}
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
	d.log.Log(d.ctx, level, "replica failed", attributes...)
}

// spared reports whether the attempt is no failure for the replica's health: some servers answer
// chats and have nothing for completions, which a client must not have them ejected for.
func (d *dispatch) spared(a *answer) bool {
	return a.complaint == complaint.Path && d.endpoint.path != chatPath && d.health.Answers(a.replica, d.clock())
}

// full says that the attempt failed because the replica has no room, and has it get less
// for a while. Where it sees the client's own key, 429 may be that client's quota. Engines
// whose queue is full say 503 as well as those that cannot answer at all.
func (d *dispatch) full(a *answer, reason failure) bool {
	sure := reason == failedBusy && a.keyed
	if !sure && (a.response == nil || a.response.StatusCode != http.StatusServiceUnavailable) {
		return false
	}
	return d.health.Busy(a.replica, sure, a.spare())
}

// again moves the work on for a retry: to another replica of its variant, or to
// another variant if the policy had chosen it. It reports false if the request
// has had its retries, all requests together have, or no replica is left. An attempt of
// which nothing was sent is no work for the fleet, and none of its retries.
func (d *dispatch) again(a *answer, reason failure) bool {
	if len(d.tried)-d.absent > d.settings().Retries.Max {
		return false // hedges count as well
	}
	now := d.clock()
	pays := !unreachable(a.err) && context.Cause(a.ctx) != errGone // nor does a host that is gone do any
	if a.misplaced() || a.absent {
		pays = false
	}
	if pays && !d.budget.take(now) {
		d.metrics.Exhausted()
		return false
	}
	variant := d.work.Variant
	if !d.work.Move(d.tried, d.call.variant == work.Auto && (d.endpoint.alike || a.absent)) {
		if pays {
			d.budget.giveBack(now)
		}
		return false
	}
	d.metrics.Retried(string(reason), d.work.Variant == variant)
	return true
}

// mark names in the answer's header who gave it.
func (d *dispatch) mark() {
	d.work.Attempts = len(d.tried)
	h := d.gin.Writer.Header()
	h[headerVariant] = []string{d.table.Variants[d.work.Variant].Name}
	h[headerReplica], h[headerAttempts] = two(d.table.Replicas[d.work.Replica].Name, strconv.Itoa(d.work.Attempts))
}
