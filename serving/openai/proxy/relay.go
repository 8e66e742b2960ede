package proxy

import (
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"gearshift/serving/access"
	"gearshift/serving/engines/gauges"
	"gearshift/serving/openai/complaint"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// Forward leaves in the client's header what goes on to the replica, under the
// router's name for the request. Credentials do: whether they leave the router is
// the backend's to say. Where the request came from is the router's to say, by its
// connection and what a trusted proxy says of it.
func (p *Proxy) Forward(c *gin.Context) http.Header {
	h, conn := c.Request.Header, c.Request.RemoteAddr
	var from []string
	if p.Trusts(conn) {
		from = h[ForwardedFor]
	}
	wire.StripHop(h, wire.Inward)
	if p.Loads.Asks() {
		h[gauges.FormatHeader] = wantedFormat
	}
	h[RequestID] = c.Writer.Header()[RequestID]
	if host := access.HostOf(conn); host != "" {
		h[ForwardedFor] = append(from[:len(from):len(from)], host)
	}
	return h
}

// wantedFormat is the form in which replicas are asked for their load: it costs least to read.
var wantedFormat = []string{"TEXT"}

// answered moves what of the replica's header concerns the client.
func answered(to, from http.Header) {
	wire.StripHop(from, func(name string) bool { return name == RequestID || wire.Outward(name) })
	if vary := to["Vary"]; vary != nil {
		from["Vary"] = append(slices.Clip(vary), from["Vary"]...)
	}
	maps.Copy(to, from)
}

// relay passes the answer on as it comes. Broken says that part of it has gone
// out and the rest will not come, so the connection must break too.
func (d *dispatch) relay(a *answer) (outcome work.Outcome, tokens int, broken bool) {
	if d.gin.Writer.Written() && !a.streams() { // comments have gone out
		outcome, broken = d.missed(a)
		return outcome, 0, broken
	}
	if a.none() {
		return d.undone(a.err), 0, false
	}
	if a.foreign() {
		return d.foreign(a), 0, false
	}
	if !a.events && a.response.StatusCode/100 == 2 { // an error is no beginning of an answer
		d.Work.Begun()
	}
	d.head(a)
	if err := d.pass(a); err != nil && !a.delivered {
		outcome, broken = d.interrupted(a, err)
		return outcome, d.tokens(a), broken
	}
	a.meter.Close()
	outcome = a.judge()
	if outcome == work.Failed && a.events && !a.meter.Failed() && !a.meter.Hollow() {
		d.writeStreamError(a, wire.Error{Type: wire.ServerError, Code: "upstream_error", Message: "the replica's events are no answer"})
	}
	d.settled(a, outcome)
	if outcome == work.Completed {
		d.Prompts.Learn(d.Work, a.meter.Prompt())
	}
	if outcome == work.Completed && a.events && a.meter.Stated() {
		d.Events[a.replica].Learn(a.meter.Tokens(), a.meter.Counted())
	}
	return outcome, d.tokens(a), a.cutOff()
}

// head begins the answer to the client as that of the replica begins.
func (d *dispatch) head(a *answer) {
	h := d.gin.Writer.Header()
	answered(h, a.response.Header)
	if d.wants != gauges.NoFormat {
		h[gauges.MetricsHeader] = []string{d.Loads.Own(d.wants)}
	}
	d.Reply.Closing(d.gin) // the request may have come before the end was ordered
	if a.events {
		h.Del("Content-Length") // an event may have to say that the replica's are none
		// Proxies on the way must not hold events back.
		h.Set("X-Accel-Buffering", "no")
		if h.Get("Cache-Control") == "" {
			h.Set("Cache-Control", "no-cache")
		}
	}
	d.gin.Status(a.response.StatusCode)
}

// linger passes on what a stream has in place of events while its client waits, such as
// comments, until there is more. They show proxies on the way that there is life, and are no
// beginning: the events may still be another replica's. It reports false if the client has
// left.
func (d *dispatch) linger(a *answer) bool {
	defer a.guard()
	for a.err == nil && a.response.StatusCode/100 == 2 && a.meter.Mute() {
		if !d.gin.Writer.Written() {
			d.mark()
			d.head(a)
		}
		if err := d.put(a, a.first); err != nil {
			a.first, a.err = nil, err
			return false
		}
		d.Alive.Wrote()
		a.first, a.err = a.next()
		a.gather()
		d.Alive.Rest()
	}
	return true
}

// pass copies the body on, each piece at once, so that the router knows how far
// the work has come.
func (d *dispatch) pass(a *answer) error {
	between, reported := true, false // what has gone out ends with an event; an event says what is wrong
	for piece, err := a.first, a.err; ; piece, err = a.next() {
		d.Alive.Rest()
		if err == io.EOF {
			a.meter.Close() // with this piece its client has all of it
		}
		d.note(a)
		d.name(a)
		if len(piece) > 0 {
			d.Work.Progress(d.tokens(a))
			if a.events && a.meter.Hollow() && between && !reported { // before its last event, after which clients hear nothing
				reported = true
				d.Reply.Event(d.gin, wire.Error{Type: wire.ServerError, Code: "upstream_error", Message: "the replica gave its answer up"})
			}
			if err := d.put(a, piece); err != nil {
				return err
			}
			if between = a.meter.AtLineStart(); a.events && a.meter.Finished() {
				a.delivered = true
				d.Work.Delivered()
			}
			if a.events && between && !a.meter.EndsInCR() && !a.delivered {
				d.Alive.Wrote()
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// put has a piece of the answer go out; of a stream at once.
func (d *dispatch) put(a *answer, piece []byte) error {
	d.Reply.Writable(d.gin)
	if _, err := d.gin.Writer.Write(piece); err != nil {
		return clientGone{err}
	}
	if d.Copy != nil {
		_, _ = d.Copy.Write(piece)
	}
	if a.events || a.opaque {
		if err := flush(d.gin.Writer); err != nil {
			return clientGone{err}
		}
	}
	d.Reply.Waits(d.gin)
	return nil
}

// flush sends what is written. The error is why it could not, which gin's own keeps
// to itself.
func flush(w gin.ResponseWriter) error {
	if under, ok := w.(interface{ Unwrap() http.ResponseWriter }); ok {
		return http.NewResponseController(under.Unwrap()).Flush()
	}
	w.Flush()
	return nil
}

// tokens is how many of the answer's have come, as far as that is known.
func (d *dispatch) tokens(a *answer) int {
	if !a.events || a.meter.Stated() {
		return a.meter.Tokens()
	}
	return d.Events[a.replica].Tokens(a.meter.Counted())
}

// judge is the outcome of an answer that has gone out whole.
func (a *answer) judge() work.Outcome {
	status := a.status()
	switch {
	case a.complaint == complaint.Context:
		return work.Refused
	case failing(status) || status == http.StatusTooManyRequests || a.locked() || a.misplaced():
		return work.Failed
	case status >= http.StatusBadRequest:
		return work.Refused
	case a.meter.Failed() || a.meter.Hollow() || a.garbled():
		return work.Failed
	case a.events && !a.meter.Begun() && !a.meter.Finished():
		return work.Failed // a stream of nothing
	}
	return work.Completed
}

// failing reports whether the status shows a fault of the replica's. A 4xx shows one of the
// client's, except what TGI says of a generation that failed (424), and LiteLLM of an
// engine that did not answer in time (408). So does 501, which llama.cpp and Ollama have
// for what their model cannot do.
func failing(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusFailedDependency:
		return true
	}
	return status >= http.StatusInternalServerError && status != http.StatusNotImplemented
}

// status is that of the header or, of a success that turns out to be an error at once,
// the one that the error names: the engine had sent its header before it looked.
func (a *answer) status() int {
	if a.response.StatusCode/100 == 2 && a.meter.Failed() && !a.meter.Started() && a.meter.Fault() > 0 {
		return a.meter.Fault()
	}
	return a.response.StatusCode
}

// complains is the status that the answer's error is read by: one within a success that names
// none may be about the request.
func (a *answer) complains() int {
	if a.response.StatusCode/100 == 2 && a.meter.Failed() && !a.meter.Started() && a.meter.Fault() == 0 {
		return http.StatusBadRequest
	}
	return a.status()
}

// settled reports how the replica did that gave the last answer, unless that has been
// reported.
func (d *dispatch) settled(a *answer, outcome work.Outcome) {
	switch {
	case a.reported:
	case outcome == work.Completed:
		d.Health.Succeeded(a.replica, a.sent)
	case outcome == work.Refused:
		d.Health.Erred(a.replica, false, a.sent)
	case failing(a.response.StatusCode) || failing(a.meter.Fault()) || a.meter.Failed() && a.meter.Fault() == 0 && !a.meter.Refused():
		d.report(a, failedStatus)
	case a.meter.Hollow() || a.garbled():
		d.report(a, failedBroken)
	}
}
