package proxy

import (
	"bytes"
	"errors"
	"gearshift/serving/engines"
	"gearshift/serving/openai/complaint"
	"io"
	"net"
	"net/http"
	"strings"
)

// unfit reports whether another attempt would better replace the answer, of which nothing has
// gone out yet, and how the replica failed.
func (a *answer) unfit() (reason failure, unfit bool) {
	switch {
	case a.none():
		return reasonFor(a.err), true
	case a.complaint == complaint.Context: // another size may hold the prompt; this one did nothing wrong
		return "", false
	case a.absent:
		return failedAbsent, true
	case a.response.StatusCode == http.StatusTooManyRequests:
		return failedBusy, true
	case busy(a.response.StatusCode) || a.locked() || a.misplaced():
		return failedStatus, true
	case a.garbage() && a.meter.Failed(): // its engine gave it up
		return failedStatus, true
	case a.garbage():
		return failedBroken, true
	case a.response.StatusCode/100 != 2 || !a.meter.Failed() || a.events && a.meter.Started():
	case a.meter.Fault() == http.StatusTooManyRequests:
		return failedBusy, true
	case a.meter.Fault() >= http.StatusInternalServerError, a.meter.Fault() == 0 && !a.meter.Refused():
		// The engine had sent its header before it found that it cannot.
		return failedStatus, true
	}
	return "", false
}

// none reports whether no answer came, or nothing of its body that a client could use
// before it broke off.
func (a *answer) none() bool {
	return a.response == nil || (len(a.first) == 0 || !a.events || a.meter.Mute() || a.meter.Undecided() || a.meter.Opening()) && a.err != nil && a.err != io.EOF
}

// streams reports whether it is a stream of events, as far as it has come.
func (a *answer) streams() bool {
	return !a.none() && a.events && a.response.StatusCode/100 == 2 && !a.foreign()
}

func (a *answer) json() bool {
	return a.media == "application/json" || strings.HasSuffix(a.media, "+json")
}

// foreign reports whether no OpenAI client would understand the answer: the page of
// something between, or a redirect; or what is said of a key that is not the client's.
func (a *answer) foreign() bool {
	status := a.response.StatusCode
	return status >= http.StatusBadRequest && !a.json() || status/100 == 3 || a.locked() || a.misplaced() || a.mute || a.garbage()
}

// garbage reports whether a success has begun with what is no answer, or has nothing in it.
func (a *answer) garbage() bool {
	if a.response.StatusCode/100 != 2 {
		return false
	}
	nothing := a.err == io.EOF && (len(bytes.TrimSpace(a.first)) == 0 || a.meter.Mute() || a.meter.Opening())
	return nothing || a.meter.Hollow() || a.garbled() && !(a.events && a.meter.Started())
}

// locked reports whether the replica does not know the router's key, or what that may do, which no
// client can mend.
func (a *answer) locked() bool {
	status := a.response.StatusCode
	return a.keyed && (status == http.StatusUnauthorized || status == http.StatusForbidden)
}

// garbled reports whether what has come of the answer is none: an event, or all of it, is no
// JSON object, whatever the header calls it. Of bytes, which are how some engines send
// vectors if they are asked to, that is not known.
func (a *answer) garbled() bool {
	return a.media != "application/octet-stream" && !a.opaque && a.meter.Garbled()
}

// reasonFor sorts the errors of an attempt.
func reasonFor(err error) failure {
	switch {
	case err == errGone:
		return failedLost
	case unreachable(err) && !engines.LookupFailed(err):
		return failedConnect
	case timeout(err) || engines.LookupFailed(err):
		return failedTimeout
	}
	return failedBroken
}

// unreachable reports whether no connection was made, so nothing was sent.
func unreachable(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

func timeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
