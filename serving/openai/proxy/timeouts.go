package proxy

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"gearshift/serving/config"
	"gearshift/serving/work"
)

// watch ends an attempt by its context when the replica lets a phase of it take
// too long, or the request's time is over. It costs one timer, whatever the phases.
type watch struct {
	config.PhaseTimeouts
	clock work.Clock
	start time.Duration
	until time.Duration // the end of the request's time
	timer *time.Timer
	phase atomic.Uint32
}

// begin starts the wait for the header. A stream's first token is not awaited
// longer because its header is late.
func (w *watch) begin(cancel context.CancelCauseFunc, stream bool) {
	p, d := config.PhaseHeader, w.Header
	if stream && w.FirstToken < d {
		p, d = config.PhaseFirstToken, w.FirstToken
	}
	w.timer = time.AfterFunc(w.bounded(p, d, w.start), func() { cancel(config.Overdue(w.phase.Load())) })
}

// bounded notes the phase that is next, the request's own end if that comes before the
// phase's, and returns how long it may take.
func (w *watch) bounded(p config.Phase, d, now time.Duration) time.Duration {
	if left := w.until - now; left < d {
		p, d = config.PhaseTotal, left
	}
	w.phase.Store(uint32(p))
	return d
}

// firstToken goes on with the wait for the first token.
func (w *watch) firstToken() { w.await(config.PhaseFirstToken, w.start+w.FirstToken-w.clock()) }

// more starts a wait for more of the answer.
func (w *watch) more() { w.await(config.PhaseIdle, w.Idle) }

// afterLast is how long a stream may stay open after its last event: its client has
// all of it, and only the connection to the replica would be lost.
const afterLast = 100 * time.Millisecond

// end starts the wait for the end of a stream that has said its last.
func (w *watch) end() { w.await(config.PhaseIdle, min(afterLast, w.Idle)) }

func (w *watch) await(p config.Phase, d time.Duration) { w.timer.Reset(w.bounded(p, d, w.clock())) }

// rest says that the router is not waiting for the replica.
func (w *watch) rest() { w.await(config.PhaseTotal, math.MaxInt64) }

// stop is for the end of the attempt.
func (w *watch) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}
