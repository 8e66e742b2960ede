package router

import (
	"errors"
	"fmt"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/queue"
)

// Backlog holds the requests that wait because no replica has room for them now. It decides
// in which order they begin, how long each may wait, and which are refused. It holds no
// lock and reads no clock, so that a server and a simulator can share it: its owner passes
// times in, calls it from one goroutine at a time, and answers the requests that it
// returns.
//
// A pass begins what can begin: [Backlog.Pass], then [Backlog.Next] until that returns nil.
// A pass is due when there may be more room than before, and at [Backlog.Due]. After it,
// [Backlog.Expire] removes the requests whose time is over. For a new request, call
// [Backlog.Join] before the pass and [Backlog.Stay] after it.
type Backlog[T any] struct {
	limits Limits
	table  *fleet.Table
	try    func(*Waiter[T]) error
	queue  *queue.Queue[*Waiter[T]]
	drain  queue.Drain
	futile futile[T] // of the pass
	now    time.Duration

	holding holding
}

// Limits bound the waiting.
type Limits struct {
	// MaxQueue is how many requests may wait. Zero is none.
	MaxQueue int
	// MaxWait is how long each may wait.
	MaxWait time.Duration
	// WaitShare bounds the wait to that share of the time that a whole answer of mean
	// length may take. Output is that length in tokens; zero is unknown, and no such bound.
	WaitShare, Output float64
	// RetryAfter and MaxRetryAfter are the least and the most time after which a refused
	// client is asked to retry.
	RetryAfter, MaxRetryAfter time.Duration
	// Hold bounds those that wait for a replica to be loaded or woken.
	Hold Hold
}

// Waiter is a request that waits, or is about to.
type Waiter[T any] struct {
	// Value is the owner's.
	Value   T
	Request *fleet.Request
	// Variant is the one that it is pinned to; below zero the policy decides.
	Variant int
	// Class is its priority class, an index of the Backlog's classes. Tenant is the client
	// that it is counted for.
	Class  int
	Tenant string
	// Err is the result of the last try to begin it.
	Err error

	entry         queue.Entry[*Waiter[T]]
	awaited, last int // the variants for which it is held, and was, counted from 1
}

// Recheck is how often waiting requests are tried though no event has come: the inputs of a
// policy or a gate may change without one.
const Recheck = 100 * time.Millisecond

// NewBacklog makes an empty Backlog. Try begins a request if there is room for it, and
// otherwise returns an error of [Core.Route].
func NewBacklog[T any](t *fleet.Table, classes []queue.Class, l Limits, try func(*Waiter[T]) error) *Backlog[T] {
	return &Backlog[T]{limits: l, table: t, try: try, queue: queue.New[*Waiter[T]](classes, l.MaxQueue)}
}

// Set changes classes and limits; see [queue.Queue.Set]. Requests that wait already keep
// their positions and deadlines.
func (b *Backlog[T]) Set(classes []queue.Class, l Limits) {
	b.limits = l
	b.queue.Set(classes, l.MaxQueue)
}

// Len returns how many requests wait.
func (b *Backlog[T]) Len() int { return b.queue.Len() }

// Waiting returns how many requests of a class wait.
func (b *Backlog[T]) Waiting(class int) int { return b.queue.Waiting(class) }

// Scarce reports whether an error of a try means that the fleet has no room now, so that it
// is worth to wait.
func Scarce(err error) bool { return errors.Is(err, ErrSaturated) || errors.Is(err, ErrLate) }

// Pass begins a pass.
func (b *Backlog[T]) Pass() { b.futile = b.futile[:0] }

// Next removes and returns the first request, in order, that need not wait any more: it has
// begun if Err is nil, and otherwise cannot begin at all. It returns nil once the pass is
// over.
func (b *Backlog[T]) Next(now time.Duration) *Waiter[T] {
	if b.queue.Len() == 0 {
		return nil
	}
	b.now = now
	e := b.queue.Take(b.settled)
	if e == nil {
		return nil
	}
	b.release(e.Value)
	if e.Value.Err == nil {
		b.drain.Served(now)
	}
	return e.Value
}

// settled reports whether an entry need not wait any more. It tries the entry, unless one
// that asks for no more has failed in this pass.
func (b *Backlog[T]) settled(e *queue.Entry[*Waiter[T]]) bool {
	w := e.Value
	if y := b.futile.like(b.table, w); y != nil {
		w.Err = y.Err
		return !b.follow(w)
	}
	if w.Err = b.try(w); !b.follow(w) {
		return true
	}
	b.futile = append(b.futile, w)
	return false
}

// Join adds a new request to the queue, unless that is full. In both cases a pass is due,
// and then Stay.
func (b *Backlog[T]) Join(w *Waiter[T]) {
	w.entry = queue.Entry[*Waiter[T]]{
		Value: w, Class: w.Class, Tenant: w.Tenant,
		Until: w.Request.Arrival + b.patient(w),
		Cost:  float64(w.Request.PromptTokens) + max(1, b.limits.Output),
	}
	if !b.queue.Full() {
		b.queue.Push(&w.entry)
	}
}

// Stay decides about a new request that the pass has not begun. A refusal means that it may
// not wait, and says why. Settled means that it has begun, or cannot begin at all: see its
// Err. Otherwise it waits. If the queue was full, a request that waited is evicted for it;
// the owner has to answer that one.
func (b *Backlog[T]) Stay(w *Waiter[T], now time.Duration) (settled bool, evicted *Waiter[T], refusal error) {
	b.now = now
	if w.entry.Waits() {
		if w.awaited == 0 && b.tooLong(w, 0, now) && b.queue.Remove(&w.entry) {
			return false, nil, b.Refusal(w, now)
		}
		return false, nil, nil
	}
	// Evict no request for one that can begin now, although the others cannot, or for one
	// that would wait in vain.
	if w.Err = b.try(w); !b.follow(w) {
		return true, nil, nil
	}
	if w.awaited == 0 && b.queue.Admits(&w.entry) && b.tooLong(w, 1, now) {
		return false, nil, b.Refusal(w, now)
	}
	e, ok := b.queue.Push(&w.entry)
	if !ok {
		b.release(w)
		return false, nil, b.refuse(RefusedFull, w.Class, w.Tenant, now)
	}
	if e != nil {
		evicted = e.Value
		b.release(evicted)
		evicted.Err = b.refuse(RefusedEvicted, evicted.Class, evicted.Tenant, now)
	}
	return false, evicted, nil
}

// tooLong reports whether the request's turn will come too late, by the rate at which
// requests begin. Own is 1 for a request that is not in the queue, which counts itself
// otherwise.
func (b *Backlog[T]) tooLong(w *Waiter[T], own int, now time.Duration) bool {
	ahead := b.queue.Ahead(w.Class, w.Tenant, w.entry.Until) + own // the request included
	wait, known := b.drain.Wait(ahead, now)
	return known && now+wait > w.entry.Until
}

// Leave removes a request whose client has gone. It reports false if the request does not
// wait any more.
func (b *Backlog[T]) Leave(w *Waiter[T]) bool {
	waited := b.queue.Remove(&w.entry)
	b.release(w)
	return waited
}

// Expire removes the requests whose time is over and appends them to over. The Err of each
// is its refusal.
func (b *Backlog[T]) Expire(now time.Duration, over []*Waiter[T]) []*Waiter[T] {
	for _, e := range b.queue.Expire(now) {
		e.Value.Err = b.Refusal(e.Value, now)
		b.release(e.Value)
		over = append(over, e.Value)
	}
	return over
}

// Empty removes and returns the next request in order, or nil if none waits. A server that
// stops empties its queue with it.
func (b *Backlog[T]) Empty() *Waiter[T] {
	e := b.queue.Take(func(*queue.Entry[*Waiter[T]]) bool { return true })
	if e == nil {
		return nil
	}
	b.release(e.Value)
	return e.Value
}

// Due returns when the next pass is due if no event comes before, and false if nothing
// waits. Call it last at each moment: without waiting requests it resets the measured rate.
func (b *Backlog[T]) Due(now time.Duration) (at time.Duration, ok bool) {
	until, ok := b.queue.Next()
	if !ok {
		b.drain.Reset()
		return 0, false
	}
	return max(now+time.Millisecond, min(until, now+Recheck)), true
}

// patience returns how long a request may wait: no longer than its deadlines allow.
func (b *Backlog[T]) patience(r *fleet.Request) time.Duration {
	patience, task := b.limits.MaxWait, &b.table.Tasks[r.Task]
	if b.limits.Output > 0 {
		allowed := task.Allowed(r.Deadline)
		if whole := float64(allowed) * b.limits.Output * b.limits.WaitShare; whole < float64(patience) {
			patience = time.Duration(whole)
		}
	}
	d := task.Deadlines(r)
	if d.FirstToken > 0 {
		patience = min(patience, d.FirstToken)
	}
	if d.Total > 0 {
		patience = min(patience, d.Total)
	}
	return patience
}

// Refusal returns the refusal of a request, for the reason of the last try to begin it.
func (b *Backlog[T]) Refusal(w *Waiter[T], now time.Duration) Refusal {
	if w.awaited > 0 {
		return Refusal{Reason: RefusedAsleep, After: b.expected(w.awaited-1, now), Awaited: w.awaited}
	}
	return b.refuse(Refused(w.Err), w.Class, w.Tenant, now)
}

func (b *Backlog[T]) refuse(reason string, class int, tenant string, now time.Duration) Refusal {
	ahead := b.queue.Ahead(class, tenant, now+b.limits.MaxWait)
	return Refusal{Reason: reason, After: b.drain.RetryAfter(ahead, now, b.limits.RetryAfter, b.limits.MaxRetryAfter)}
}

// Refusal is the error of a request that is refused under load. After is when its client
// should retry.
type Refusal struct {
	Reason string // one of the Refused constants
	After  time.Duration
	// Awaited is the variant for which the request was held, or would have been, counted from 1; zero is none.
	Awaited int
}

func (e Refusal) Error() string { return fmt.Sprintf("refused under load: %s", e.Reason) }

// Reasons for which a request is refused. They are few and fixed, so they can label a
// metric.
const (
	RefusedLate      = "deadline"   // no replica could answer it in time
	RefusedFull      = "queue_full" // too many requests wait
	RefusedEvicted   = "displaced"  // a request that comes before it needed its place in a full queue
	RefusedSaturated = "saturated"  // every replica that could answer is full
	RefusedNoReplica = "no_replica" // no replica that could answer is up
	RefusedAsleep    = "asleep"     // it was held for a replica to be loaded or woken, and none was up in time
	RefusedHeld      = "held_full"  // too many requests are held for that
)

// Refused returns the reason that an error of [Core.Route] stands for, or "" if it stands
// for none.
func Refused(err error) string {
	var refused Refusal
	switch {
	case errors.As(err, &refused):
		return refused.Reason
	case errors.Is(err, ErrSaturated):
		return RefusedSaturated
	case errors.Is(err, ErrLate):
		return RefusedLate
	case errors.Is(err, ErrNoReplica):
		return RefusedNoReplica
	}
	return ""
}
