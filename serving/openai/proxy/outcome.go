package proxy

import (
	"errors"
	"net/http"
	"strings"

	"gearshift/serving/config"
	"gearshift/serving/openai/complaint"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// clientGone is what pass returns when the client, not the replica, failed.
type clientGone struct{ error }

// end is how a request ends whose answer did not come, or not to its end.
type end struct {
	outcome       work.Outcome
	code, message string
}

// endOf is how a request ends by an error: by whose doing, and what its client reads.
func (d *dispatch) endOf(err error) end {
	var late config.Overdue
	_, gone := err.(clientGone)
	switch {
	case gone || d.ctx.Err() != nil:
		return end{outcome: work.Cancelled}
	case errors.As(err, &late):
		d.Metrics.TimedOut(config.Phase(late))
		return end{work.TimedOut, late.Code(), late.Message()}
	case timeout(err):
		return end{work.TimedOut, "upstream_timeout", "the replica did not answer in time"}
	}
	message := "the replica could not be reached or broke off"
	if err == errGone {
		message = errGone.Error() + ", and no other can answer"
	}
	return end{work.Failed, "upstream_unavailable", message}
}

// undone answers for a request whose replicas gave no answer.
func (d *dispatch) undone(err error) work.Outcome {
	e := d.endOf(err)
	switch e.outcome {
	case work.Cancelled:
		// 499 is what proxies log for a client that left; no client reads it.
		d.gin.Status(499)
	case work.TimedOut:
		d.Reply.Fail(d.gin, http.StatusGatewayTimeout, wire.Error{Type: wire.Timeout, Code: wire.Optional(e.code), Message: e.message})
	default:
		d.Reply.Fail(d.gin, http.StatusBadGateway, wire.Error{Type: wire.ServerError, Code: wire.Optional(e.code), Message: e.message})
	}
	return e.outcome
}

// interrupted deals with an answer that broke off. If nothing of it has gone
// out, an error can; in a stream, an event can still say so.
func (d *dispatch) interrupted(a *answer, err error) (outcome work.Outcome, broken bool) {
	if _, gone := err.(clientGone); !gone && !d.gin.Writer.Written() {
		return d.undone(err), false
	}
	e := d.endOf(err)
	if e.outcome == work.Cancelled {
		return work.Cancelled, true
	}
	if !d.over(a) { // else the request took too long, not the replica
		d.report(a, reasonFor(err))
	}
	if a.events {
		w := wire.Error{Type: wire.Timeout, Code: wire.Optional(e.code), Message: e.message}
		if e.outcome == work.Failed {
			w.Type, w.Code, w.Message = wire.ServerError, "upstream_broke_off", "the replica broke off within its answer"
			if err == errGone {
				w.Message = "the replica's host was lost within its answer"
			}
		}
		d.writeStreamError(a, w)
	}
	return e.outcome, true
}

// missed says within a stream that has had nothing but comments that nothing follows.
func (d *dispatch) missed(a *answer) (outcome work.Outcome, broken bool) {
	e := end{work.Failed, "upstream_error", "the replica's answer is no stream"}
	switch {
	case a.none():
		e = d.endOf(a.err)
	case a.locked():
		e.code, e.message = "upstream_unauthorized", unauthorized
	case a.misplaced():
		e.code, e.message = "upstream_not_found", notFound
	case a.response.StatusCode/100 != 2:
		e.outcome, e.message = a.judge(), "the replica answered "+a.response.Status
		if why := complaint.Message(a.first); why != "" && !a.foreign() {
			e.message += ": " + why
		}
	case a.events:
		e.message = "the replica's events are no answer"
	}
	if e.outcome == work.Cancelled {
		return work.Cancelled, true
	}
	w := wire.Error{Type: wire.ServerError, Code: wire.Optional(e.code), Message: e.message}
	switch e.outcome {
	case work.TimedOut:
		w.Type = wire.Timeout
	case work.Refused:
		w.Type = wire.InvalidRequest
	}
	d.Reply.Event(d.gin, w)
	if !a.none() {
		d.settled(a, e.outcome)
	}
	return e.outcome, a.none()
}

// nothingIn is the message for a client about an answer without content.
const nothingIn = "the replica's answer has nothing in it"

// notFound is the message for a client about a replica that lacks what the router asked it for.
const notFound = "the replica does not have the model or the endpoint that the router asked it for"

// unauthorized is the message for a client about a key that is not its own.
const unauthorized = "the replica does not accept the router's key"

// writeStreamError says within a stream that it has failed, unless an event is half
// written.
func (d *dispatch) writeStreamError(a *answer, e wire.Error) {
	if !a.meter.AtLineStart() {
		return
	}
	if a.meter.EndsInCR() { // with which a line feed would be one end of a line
		_, _ = d.gin.Writer.WriteString("\n")
	}
	d.Reply.Event(d.gin, e)
}

// foreign replaces an answer that no OpenAI client would understand.
func (d *dispatch) foreign(a *answer) work.Outcome {
	r := a.response
	if a.first == nil && a.err == nil && a.media == "text/plain" {
		a.first, a.err = a.next() // of one that is busy nothing has been read yet
		a.gather()
	}
	status, outcome := http.StatusBadGateway, work.Failed
	if r.StatusCode >= http.StatusBadRequest {
		status, outcome = r.StatusCode, a.judge()
	}
	e := wire.Error{Type: wire.ServerError, Code: "upstream_error", Message: "the replica answered " + r.Status}
	if outcome == work.Refused {
		e.Type = wire.InvalidRequest
	}
	switch why := strings.TrimSpace(string(a.first)); {
	case a.mute:
		status, e = d.unsupported()
	case a.locked(): // another key than the client's, who is to read nothing of it
		status, e.Code, e.Message = http.StatusBadGateway, "upstream_unauthorized", unauthorized
	case a.misplaced():
		status, e.Code, e.Message = http.StatusBadGateway, "upstream_not_found", notFound
	case r.StatusCode/100 == 2 && (a.meter.Hollow() || a.meter.Opening()):
		e.Message = nothingIn
	case r.StatusCode/100 == 2:
		e.Message = "the replica's answer is no JSON"
	case a.media == "text/plain" && why != "":
		e.Message += ": " + why
	}
	if after := r.Header.Get("Retry-After"); after != "" {
		d.gin.Header("Retry-After", after)
	}
	d.Reply.Fail(d.gin, status, e)
	d.settled(a, outcome)
	return outcome
}
