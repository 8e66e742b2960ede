package serving

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// PhaseTimeouts bound the phases of one attempt at a replica. As a replica's
// own, a zero stands for the server's.
type PhaseTimeouts struct {
	// Connect bounds the time to connect, TLS included. The backend's transport
	// keeps it; all others the server does.
	Connect time.Duration `yaml:"connect,omitempty"`
	// Header bounds the wait for the answer's header, from dispatch on. Of an
	// answer in one piece that is the whole work.
	Header time.Duration `yaml:"header,omitempty"`
	// FirstToken bounds the wait for a stream's first event, from dispatch on.
	// The announcement of an answer, and a comment, are none.
	FirstToken time.Duration `yaml:"first_token,omitempty"`
	// Idle bounds each later wait for more of the answer.
	Idle time.Duration `yaml:"idle,omitempty"`
}

// Or is the timeouts with those that are zero filled in.
func (t PhaseTimeouts) Or(otherwise PhaseTimeouts) PhaseTimeouts {
	or := func(d, otherwise time.Duration) time.Duration {
		if d > 0 {
			return d
		}
		return otherwise
	}
	return PhaseTimeouts{
		Connect: or(t.Connect, otherwise.Connect), Header: or(t.Header, otherwise.Header),
		FirstToken: or(t.FirstToken, otherwise.FirstToken), Idle: or(t.Idle, otherwise.Idle),
	}
}

// Negative names the timeouts that make no sense, by their YAML keys.
func (t PhaseTimeouts) Negative() (keys []string) {
	for p, d := range t.each() {
		if d < 0 {
			keys = append(keys, phases[p])
		}
	}
	return keys
}

func (t PhaseTimeouts) each() []time.Duration {
	return []time.Duration{t.Connect, t.Header, t.FirstToken, t.Idle}
}

// Timeouts bound the work on a request.
type Timeouts struct {
	PhaseTimeouts `yaml:",inline"`
	// Total bounds the whole of it, all attempts together.
	Total time.Duration `yaml:"total"`
}

func defaultTimeouts() Timeouts {
	return Timeouts{
		PhaseTimeouts: PhaseTimeouts{
			Connect: 5 * time.Second, Header: 10 * time.Minute, FirstToken: 2 * time.Minute, Idle: time.Minute,
		},
		Total: 10 * time.Minute,
	}
}

func (t Timeouts) faults() (faults []error) {
	for p, d := range append(t.each(), t.Total) {
		if d <= 0 {
			faults = append(faults, fmt.Errorf("timeouts.%s: %v must be positive", phases[p], d))
		}
	}
	return faults
}

// phase is a part of the work on a request that has a time of its own.
type phase uint32

const (
	phaseConnect phase = iota
	phaseHeader
	phaseFirstToken
	phaseIdle
	phaseTotal
)

var phases = [...]string{"connect", "header", "first_token", "idle", "total"}

// overdue is the cause of a context whose request spent too long in a phase.
type overdue phase

func (o overdue) Error() string { return "timeout: " + phases[o] }
func (overdue) Timeout() bool   { return true }

// code is the error's, as clients see it.
func (o overdue) code() string { return phases[o] + "_timeout" }

// message is the error's, for people.
func (o overdue) message() string {
	return [...]string{
		"no connection to the replica could be made in time",
		"the replica did not begin to answer in time",
		"the replica did not send the first token in time",
		"the replica fell silent within its answer",
		"the request's whole time is over",
	}[o]
}

// watch ends an attempt by its context when the replica lets a phase of it take
// too long, or the request's time is over. It costs one timer, whatever the phases.
type watch struct {
	PhaseTimeouts
	clock Clock
	start time.Duration
	until time.Duration // the end of the request's time
	timer *time.Timer
	phase atomic.Uint32
}

// begin starts the wait for the header. A stream's first token is not awaited
// longer because its header is late.
func (w *watch) begin(cancel context.CancelCauseFunc, stream bool) {
	p, d := phaseHeader, w.Header
	if stream && w.FirstToken < d {
		p, d = phaseFirstToken, w.FirstToken
	}
	w.timer = time.AfterFunc(w.bounded(p, d, w.start), func() { cancel(overdue(w.phase.Load())) })
}

// bounded notes the phase that is next, the request's own end if that comes before the
// phase's, and returns how long it may take.
func (w *watch) bounded(p phase, d, now time.Duration) time.Duration {
	if left := w.until - now; left < d {
		p, d = phaseTotal, left
	}
	w.phase.Store(uint32(p))
	return d
}

// firstToken goes on with the wait for the first token.
func (w *watch) firstToken() { w.await(phaseFirstToken, w.start+w.FirstToken-w.clock()) }

// more starts a wait for more of the answer.
func (w *watch) more() { w.await(phaseIdle, w.Idle) }

// afterLast is how long a stream may stay open after its last event: its client has
// all of it, and only the connection to the replica would be lost.
const afterLast = 100 * time.Millisecond

// end starts the wait for the end of a stream that has said its last.
func (w *watch) end() { w.await(phaseIdle, min(afterLast, w.Idle)) }

func (w *watch) await(p phase, d time.Duration) { w.timer.Reset(w.bounded(p, d, w.clock())) }

// rest says that the router is not waiting for the replica.
func (w *watch) rest() { w.await(phaseTotal, math.MaxInt64) }

// stop is for the end of the attempt.
func (w *watch) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}
