package lifecycle

import (
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
)

// retryWake passes before a wake or a load that has failed, or had no memory, is tried again.
const retryWake = time.Second

// Waker is a [control.Controller] that wakes or loads a replica of each variant for which requests are held
// ([fleet.Ledger.Await]) while none of it is up. It uses the memory that is free, and puts nothing to sleep.
type Waker struct {
	ledger  *fleet.Ledger
	table   *fleet.Table
	engines Engines
	claims  *Claims
	retry   []time.Duration // by replica, before which it is not woken
	now     time.Duration
	wakes   int
}

// NewWaker makes a controller of the ledger's replicas. [Waker.Claim] follows before the first Wake.
func NewWaker(l *fleet.Ledger, e Engines) *Waker {
	return &Waker{ledger: l, table: l.Table(), engines: e, retry: make([]time.Duration, len(l.Table().Replicas))}
}

// Claim takes the claims of a learned placement, the lowest rank.
func (w *Waker) Claim(claim func(Rank, func(control.Event)) *Claims) {
	w.claims = claim(Learned, w.ended)
}

// Wakes returns how many wakes and loads were wanted so far.
func (w *Waker) Wakes() int { return w.wakes }

// ended follows the end of a want.
func (w *Waker) ended(e control.Event) {
	if e.Kind == control.ActionFailed || e.Kind == control.Evicted {
		w.retry[e.Replica] = e.At + retryWake
	}
}

// Observe implements [control.Controller].
func (*Waker) Observe(control.Event) {}

// Wake implements [control.Controller].
func (w *Waker) Wake(now time.Duration) (next time.Duration) {
	w.now, next = now, control.Never
	for v := range w.table.Variants {
		if w.ledger.Awaited(v) == 0 || w.coming(v) {
			continue
		}
		if !w.wake(v) {
			next = now + retryWake
		}
	}
	return next
}

// coming reports whether a replica of the variant is up, or on its way there.
func (w *Waker) coming(variant int) bool {
	for _, i := range w.table.ReplicasOf(variant) {
		if s := w.claims.Status(i); s.State == fleet.Up || s.Placed == fleet.Loading || s.Doing != "" && s.Target == fleet.Up || w.claims.Wanted(i) {
			return true
		}
	}
	return false
}

// wake wakes a replica of the variant, or loads one where none sleeps. It reports whether it could.
func (w *Waker) wake(variant int) bool {
	for _, from := range []fleet.State{fleet.Warm, fleet.Cold} {
		for _, i := range w.table.ReplicasOf(variant) {
			if w.ledger.State(i) != from || w.now < w.retry[i] || !w.engines.Driven(i) || !w.claims.Idle(i) || w.claims.Taken(i) || !w.claims.Fits(i) {
				continue
			}
			_, err := w.claims.Propose(Want{Replica: i, State: fleet.Up})
			w.engines.Ordered(control.Action{Verb: control.Towards(from, fleet.Up), Replica: i}, err)
			if err == nil {
				w.wakes++
				return true
			}
			w.retry[i] = w.now + retryWake
		}
	}
	return false
}
