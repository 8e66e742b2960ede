package router

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"gearshift/router/fleet"
)

// ErrAsleep reports an [ErrNoReplica] where a replica that could answer is not loaded, or asleep, or on its way
// to or from there.
var ErrAsleep = fmt.Errorf("%w: those that could answer are not loaded, or asleep", ErrNoReplica)

// Hold bounds the requests that wait in a [Backlog] for a replica to be loaded or woken, since none that could
// answer them is up. The zero value holds none: they are refused.
type Hold struct {
	// For bounds the time that a request is held, and Most the number that are held at a time.
	For  time.Duration
	Most int
}

// Holder bounds and counts the requests that a [Backlog] holds.
type Holder struct {
	// Ledger counts the requests that are held, by variant ([fleet.Ledger.Await]).
	Ledger *fleet.Ledger
	// Wakes reports whether anything loads and wakes the replica. Nil: each may be.
	Wakes func(replica int) bool
	// Nudge, if not nil, is called when a variant is awaited that was not before. It must not use the Backlog.
	Nudge func()
}

// holding counts the requests that are held.
type holding struct {
	Holder
	n      int           // held
	states []fleet.State // of replicas, to be reused
}

// Holds lets the backlog hold requests, within its limits.
func (b *Backlog[T]) Holds(h Holder) { b.holding.Holder = h }

// Held returns how many requests are held.
func (b *Backlog[T]) Held() int { return b.holding.n }

// Waits reports whether a request for which a try has failed with the error may wait.
func (b *Backlog[T]) Waits(err error) bool {
	return Scarce(err) || b.limits.Hold.For > 0 && b.holding.Ledger != nil && errors.Is(err, ErrAsleep)
}

// follow reports whether the request may go on waiting after a try, and counts it as held or not by that.
func (b *Backlog[T]) follow(w *Waiter[T]) bool {
	if !errors.Is(w.Err, ErrAsleep) {
		b.release(w)
		return Scarce(w.Err)
	}
	if w.awaited > 0 {
		return true
	}
	v := -1
	if b.Waits(w.Err) {
		v = b.awaits(w)
	}
	if v < 0 {
		return false
	}
	if b.holding.n >= b.limits.Hold.Most {
		w.Err = Refusal{Reason: RefusedHeld, After: b.expected(v, b.now), Awaited: v + 1}
		return false
	}
	b.holding.n++
	w.awaited, w.entry.Idle, w.Request.Held = v+1, true, true
	b.holding.Ledger.Await(v, 1)
	if b.holding.Nudge != nil && b.holding.Ledger.Awaited(v) == 1 {
		b.holding.Nudge()
	}
	return true
}

// release counts the request as held no longer.
func (b *Backlog[T]) release(w *Waiter[T]) {
	if w.awaited > 0 {
		b.holding.n--
		b.holding.Ledger.Await(w.awaited-1, -1)
		w.awaited, w.last, w.entry.Idle = 0, w.awaited, false
	}
}

// Awaited returns the variant for which the request is held, or was; −1 if it never was held.
func (w *Waiter[T]) Awaited() int {
	if w.awaited > 0 {
		return w.awaited - 1
	}
	return w.last - 1
}

// patient returns how long the request may wait from its arrival on. A request that has to be held may wait as long
// as the limits allow, whatever its task's deadlines. Deadlines of its own still count.
func (b *Backlog[T]) patient(w *Waiter[T]) time.Duration {
	hold := b.limits.Hold.For
	if hold == 0 || b.holding.Ledger == nil || b.awaits(w) < 0 {
		return b.patience(w.Request)
	}
	for _, own := range []time.Duration{w.Request.FirstToken, w.Request.Total} {
		if own > 0 {
			hold = min(hold, own)
		}
	}
	return hold
}

// soonest orders the states of replicas by how soon they are up.
var soonest = [...]int{fleet.Loading: 0, fleet.Warm: 1, fleet.Draining: 2, fleet.Cold: 3}

// awaits returns the variant that the request is to wait for: of those of which a replica could answer once it is
// loaded or woken, the one that is up soonest, by the states of replicas and by whether they have memory; of equals
// the first of the table. It returns −1 if there is none, or one is up. A request that only
// one replica may answer waits for none: what that replica had kept is gone.
func (b *Backlog[T]) awaits(w *Waiter[T]) int {
	x, r := &b.holding, w.Request
	if r.Only != 0 {
		return -1
	}
	x.states = x.Ledger.States(x.states[:0])
	best, least := -1, 0
	for i, s := range x.states {
		v := b.table.Replicas[i].Variant
		if w.Variant >= 0 && v != w.Variant || !b.table.Serves(r, i) || slices.Contains(r.Without, i) {
			continue
		}
		switch {
		case s == fleet.Up:
			return -1
		case s == fleet.Down || s == fleet.Absent || x.Wakes != nil && !x.Wakes(i):
			continue
		}
		order := soonest[s]
		if s != fleet.Loading && x.lacks(b.table, i) {
			order += len(soonest)
		}
		if best < 0 || cmp.Or(cmp.Compare(order, least), cmp.Compare(v, best)) < 0 {
			best, least = v, order
		}
	}
	return best
}

// lacks reports whether the host has no memory for the replica in addition to what is loaded.
func (x *holding) lacks(t *fleet.Table, replica int) bool {
	host := t.Replicas[replica].Host
	free := t.Hosts[host].Memory
	if free == 0 {
		return false
	}
	for _, i := range t.ReplicasOn(host) {
		if s := x.states[i]; i != replica && s != fleet.Cold && s != fleet.Warm {
			free -= t.MemoryOf(i)
		}
	}
	return free < t.MemoryOf(replica)
}

// expected returns the time until a replica of the variant may be up: the rest of a load or wake that is under
// way, else the time of a whole one, within the limits for refused clients.
func (b *Backlog[T]) expected(variant int, now time.Duration) time.Duration {
	l, best := b.holding.Ledger, time.Duration(-1)
	for _, i := range b.table.ReplicasOf(variant) {
		var takes time.Duration
		m := b.table.ModelOf(variant)
		switch s := l.State(i); {
		case s == fleet.Loading:
			if at, ok := l.UpAt(i); ok {
				takes = max(0, at-now)
			}
		case m >= 0 && s == fleet.Cold:
			takes = b.table.Models[m].Load
		case m >= 0:
			takes = b.table.Models[m].WakeTime()
		}
		if best < 0 || takes < best {
			best = takes
		}
	}
	best = max(b.limits.RetryAfter, min(best, b.limits.MaxRetryAfter), time.Second)
	return (best + time.Second - 1).Truncate(time.Second)
}
