package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gearshift/serving/config"
	"gearshift/serving/openai/complaint"
	"gearshift/serving/openai/wire"
)

// answer is what one attempt at a replica comes to: the beginning of an answer,
// read before any of it goes to the client, so that another attempt can still
// replace it; or the error that came instead.
type answer struct {
	replica  int
	sent     time.Duration  // when the attempt began
	response *http.Response // nil if none came
	// first is what of the body has been read, and err how that reading ended, or
	// why there was none.
	first []byte
	err   error

	media   string // its type, without parameters
	events  bool
	opaque  bool // in a coding that the router cannot read
	known   bool // whether it is events has been found out
	ended   bool // all of the body has come
	stream  bool // the client asked for events
	choices int  // that it asked for
	meter   *wire.Meter
	budget  wire.Budget // of what the meter keeps
	ctx     context.Context
	cancel  context.CancelCauseFunc
	pending *pending     // in which it is until its end
	reads   atomic.Int64 // begun and ended: odd while more of the body is awaited
	watch   watch
	buffer  *[32 << 10]byte
	// panicked is what the transport panicked with on another goroutine.
	panicked any
	keyed    bool // what key the replica sees, if any, is the router's own
	// model is what the replica was asked for, and complaint what its error is about.
	model     string
	complaint complaint.Kind
	common    bool // every engine has the endpoint
	endpoint  *Endpoint
	carried   bool // a carrier makes the attempt, and its connection is not the router's
	own       bool // the router takes the answer apart itself, whatever it is
	taken     bool // and has
	absent    bool // the replica lacks the endpoint, as not every engine has it
	mute      bool // and does not say so as OpenAI's clients understand
	reported  bool // to health
	noted     bool // as a response that the replica keeps, or as none
	begun     bool // as an answer that may be scored
	named     bool // likewise, with its ID
	// delivered says that the last event of a stream has gone out: whatever fails then,
	// the client has all of it.
	delivered bool
}

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// send makes the attempt: it returns when the answer has begun, or failed.
func (a *answer) send(transport http.RoundTripper, out *http.Request) {
	a.watch.begin(a.cancel, a.stream)
	if a.response, a.err = transport.RoundTrip(out); a.err != nil {
		a.watch.rest()
		if a.response = nil; a.err != ErrUnseen { // whatever its context says since then
			a.err = a.because(a.err)
		}
		return
	}
	if status := a.response.StatusCode; status < http.StatusOK || status > 599 {
		a.watch.rest()
		a.response.Body.Close()
		a.response, a.err = nil, fmt.Errorf("the replica answered with the status %03d, which is none", status)
		return
	}
	tame(a.response.Header, "Retry-After", time.Second)
	tame(a.response.Header, "Retry-After-Ms", time.Millisecond)
	a.media, _ = wire.MediaType(wire.Field(a.response.Header, "Content-Type"))
	a.opaque = coded(a.response.Header) || a.response.StatusCode/100 == 2 && (a.own || a.endpoint.Files && !a.json() && a.media != eventStream)
	a.measure(a.media == eventStream && !a.opaque)
	if busy(a.response.StatusCode) { // what such an answer says matters only if it is the last
		a.watch.rest()
		return
	}
	a.first, a.err = a.next()
	a.gather()
	if status := a.complains(); complaint.Worth(status) {
		a.complaint = complaint.Of(status, a.first, a.model)
		a.absent = a.complaint == complaint.Endpoint ||
			!a.common && a.complaint != complaint.Model && complaint.Absent(status, a.first, out.URL.Path)
		a.mute = a.absent && !(a.json() && complaint.Explains(a.first))
	}
}

// misplaced reports whether the replica lacks what it was asked for: the model, which the
// router put into the request, or an endpoint that every engine has. That is its failure,
// or the scenario's, and not the client's.
func (a *answer) misplaced() bool {
	return a.complaint == complaint.Model || a.complaint == complaint.Path && a.common
}

// eventStream is the media type of events.
const eventStream = "text/event-stream"

// coded reports whether a text is in a coding that the backend could not undo. It passes as it is,
// and the router cannot read it.
func coded(h http.Header) bool {
	coding := wire.Field(h, "Content-Encoding")
	return coding != "" && !strings.EqualFold(coding, "identity")
}

// measure begins to meter the answer, as events or as one object.
func (a *answer) measure(events bool) {
	if a.meter != nil {
		a.meter.Drop()
	}
	a.events, a.meter = events, wire.NewMeter(events)
	a.meter.Within(a.budget)
	a.meter.Expect(a.choices)
	if a.endpoint.Lists {
		a.meter.Lists()
	}
	if a.endpoint.Generates {
		a.meter.Generated()
	}
}

// recognise finds out by its beginning whether an answer is events. Some engines and what lies
// before them name no type, or a wrong one: a stream that was asked for is one under any name,
// and an object is none.
func (a *answer) recognise() {
	success := a.response.StatusCode/100 == 2
	if a.known || a.opaque || !a.events && !(a.stream && success) {
		return
	}
	form := wire.FormOf(a.first)
	// Blank lines before an event go out at once: they keep a connection open.
	a.known = form != wire.Unclear || a.events && len(a.first) > 0
	switch {
	case a.events && form == wire.Object:
		a.relabel(false, "application/json")
	case !a.events && form == wire.Events:
		a.relabel(true, eventStream)
	}
}

// relabel has the answer be of another type than its header says.
func (a *answer) relabel(events bool, media string) {
	a.media = media
	a.response.Header["Content-Type"] = []string{media}
	a.measure(events)
	_, _ = a.meter.Write(a.first)
	if a.ended {
		a.err = a.ending()
	}
}

// gather reads on, as far as the buffer goes, in what no client can use a part of: an answer
// in one piece, a first event, or openings without content. While none has gone out an answer that
// breaks off, has nothing in it, or is no JSON, can still give way to another attempt or to an error.
func (a *answer) gather() {
	for a.recognise(); a.partial() && a.err == nil && len(a.first) < len(a.buffer); a.recognise() {
		more, err := a.fill(a.buffer[len(a.first):])
		a.first, a.err = a.buffer[:len(a.first)+len(more)], err
	}
	if !a.events && a.err == io.EOF {
		a.meter.Close()
	}
}

// partial reports whether what has come of the answer is no use to a client yet.
func (a *answer) partial() bool {
	return !a.events && !a.opaque || a.meter.Undecided() || a.meter.Opening()
}

// spare is for how long the replica asks to be spared; zero if it does not say.
func (a *answer) spare() time.Duration {
	text := a.response.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(0, seconds), math.MaxInt32)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// longestSpare is the longest time after which a client is told to come back.
const longestSpare = 24 * time.Hour

// tame leaves in a field that says when to come back, in units or as a date, no time that is longer than
// longestSpare, and nothing that is no time.
func tame(h http.Header, name string, unit time.Duration) {
	text := h.Get(name)
	if text == "" {
		return
	}
	most := float64(longestSpare / unit)
	switch n, err := strconv.ParseFloat(text, 64); {
	case err == nil && n >= 0 && n <= most && strings.Trim(text, "0123456789.") == "":
	case n > most: // beyond all numbers too
		h.Set(name, strconv.FormatInt(int64(most), 10))
	default:
		if at, err := http.ParseTime(text); err != nil || unit != time.Second || time.Until(at) > longestSpare {
			h.Del(name)
		}
	}
}

// busy reports whether the status asks for another attempt elsewhere.
func busy(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable:
		return true
	}
	// Of a proxy before the engine, such as Cloudflare's, which could not reach it, or
	// statusOverloaded.
	return status >= 520 && status <= 530
}

// next waits for more of the body and meters it. What it returns is good until
// the next call. After the last of it the error is [io.EOF].
func (a *answer) next() (piece []byte, err error) {
	if a.buffer == nil {
		a.buffer = buffers.Get().(*[32 << 10]byte)
	}
	return a.fill(a.buffer[:])
}

// fill waits for more of the body, as next, in a buffer that is not empty.
func (a *answer) fill(buffer []byte) (piece []byte, err error) {
	var n int
	for n == 0 && err == nil {
		// The clock stands still while the client does not read: a slow client is not a
		// silent replica.
		switch {
		case a.meter.Finished():
			a.watch.end()
		case a.events && !a.meter.Begun():
			a.watch.firstToken()
		default:
			a.watch.more()
		}
		a.reads.Add(1)
		n, err = a.response.Body.Read(buffer)
		a.reads.Add(1)
	}
	a.watch.rest()
	piece = buffer[:n]
	if !a.opaque {
		_, _ = a.meter.Write(piece)
	}
	switch {
	case err == io.EOF:
		a.ended = true
		err = a.ending()
	case err != nil:
		err = a.because(err)
	}
	return piece, err
}

// ending is [io.EOF] where the body of the answer has ended, or the error that it has not.
func (a *answer) ending() error {
	if a.events {
		if a.meter.Close(); a.cutOff() {
			return io.ErrUnexpectedEOF
		}
	}
	return io.EOF
}

// cutOff reports whether a body at its end may not be whole. Where nothing but
// the end of the connection marks that, only its text shows it: the last event of a
// stream, or the end of an object. Of a stream that has begun it counts in any case,
// if less will do: Ollama ends the body properly whatever happens to the model.
func (a *answer) cutOff() bool {
	r := a.response
	switch {
	case r.StatusCode >= http.StatusBadRequest:
		return false
	case a.opaque:
		return false
	case r.ContentLength >= 0 || len(r.TransferEncoding) > 0 || r.Uncompressed || r.ProtoMajor != 1:
		return a.events && a.meter.Cut()
	}
	return a.events && !a.meter.Finished() || !a.events && a.garbled()
}

// because is the error, or the timeout or the loss that is its cause.
func (a *answer) because(err error) error {
	if a.gone() {
		return errGone
	}
	var late config.Overdue
	if errors.As(context.Cause(a.ctx), &late) {
		return late
	}
	if timed, unconnected := timeout(err), unreachable(err); timed && unconnected {
		return errors.Join(config.Overdue(config.PhaseConnect), err)
	}
	return err
}

// close ends the attempt, at whatever point it is. What is left of the answer is
// not read; its connection breaks, which stops the replica.
func (a *answer) close() {
	a.cancel(nil)
	a.pending.remove(a)
	a.watch.stop()
	if a.response != nil {
		a.response.Body.Close()
	}
	if a.meter != nil {
		a.meter.Drop()
	}
	if a.buffer != nil {
		buffers.Put(a.buffer)
		a.buffer, a.first = nil, nil
	}
}

// guard, deferred, closes the answer where something panics.
func (a *answer) guard() {
	if v := recover(); v != nil {
		a.close()
		panic(v)
	}
}
