package router

import (
	"errors"
	"fmt"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/queue"
)

// Backlog is the requests that wait because no replica has room for them now: the
// order in which they are begun, how long each may wait, and who is refused. It holds
// no lock and reads no clock: its owner passes times in, calls it from one goroutine
// at a time, and answers the requests that it returns.
//
// A pass begins what can be begun: [Backlog.Pass], then [Backlog.Next] until that
// returns nil. A pass is due when there may be more room than before, and at
// [Backlog.Due]. Those whose time is over leave with [Backlog.Expire] after it. For a
// newcomer [Backlog.Join] comes before the pass and [Backlog.Stay] after it.
type Backlog[T any] struct {
	limits Limits
	table  *fleet.Table
	try    func(*Waiter[T]) error
	queue  *queue.Queue[*Waiter[T]]
	drain  queue.Drain
	futile futile[T] // of the pass
}

// Limits are what bounds the waiting.
type Limits struct {
	// MaxQueue is how many requests wait at most. Zero: none does.
	MaxQueue int
	// MaxWait is how long each waits at most.
	MaxWait time.Duration
	// WaitShare of the time that the whole of a mean answer may take bounds it too,
	// if Output, its mean tokens, is known.
	WaitShare, Output float64
	// RetryAfter and MaxRetryAfter are the least and the most time that a refused
	// client is asked to stay away.
	RetryAfter, MaxRetryAfter time.Duration
}

// Waiter is a request that waits, or is about to.
type Waiter[T any] struct {
	// Value is the owner's.
	Value   T
	Request *fleet.Request
	// Variant is what it may be begun on; below zero the policy decides.
	Variant int
	// Class is an index of the Backlog's classes, and Tenant whose request it is.
	Class  int
	Tenant string
	// Err is what the last try to begin it said.
	Err error

	entry queue.Entry[*Waiter[T]]
}

// Recheck is how often what waits is tried though nothing has happened: what a policy
// or a gate goes by may change without an event.
const Recheck = 100 * time.Millisecond

// NewBacklog makes a Backlog in which nothing waits. Try begins a request if there is
// room for it, and says with an error as of [Core.Route] that there is none.
func NewBacklog[T any](t *fleet.Table, classes []queue.Class, l Limits, try func(*Waiter[T]) error) *Backlog[T] {
	return &Backlog[T]{limits: l, table: t, try: try, queue: queue.New[*Waiter[T]](classes, l.MaxQueue)}
}

// Set changes classes and limits; see [queue.Queue.Set]. Those who wait keep their
// places and the time that they were given.
func (b *Backlog[T]) Set(classes []queue.Class, l Limits) {
	b.limits = l
	b.queue.Set(classes, l.MaxQueue)
}

// Len is how many wait.
func (b *Backlog[T]) Len() int { return b.queue.Len() }

// Waiting is how many of a class wait.
func (b *Backlog[T]) Waiting(class int) int { return b.queue.Waiting(class) }

// Scarce reports whether an error of a try says that the fleet is short of room, for now.
func Scarce(err error) bool { return errors.Is(err, ErrSaturated) || errors.Is(err, ErrLate) }

// Pass begins a pass.
func (b *Backlog[T]) Pass() { b.futile = b.futile[:0] }

// Next takes the first, in order, that need not wait any more: with Err nil it has
// been begun, otherwise it cannot be. It is nil once the pass is over.
func (b *Backlog[T]) Next(now time.Duration) *Waiter[T] {
	if b.queue.Len() == 0 {
		return nil
	}
	e := b.queue.Take(b.settled)
	if e == nil {
		return nil
	}
	if e.Value.Err == nil {
		b.drain.Served(now)
	}
	return e.Value
}

// settled tries an entry, unless the like of it has been tried in this pass.
func (b *Backlog[T]) settled(e *queue.Entry[*Waiter[T]]) bool {
	w := e.Value
	if y := b.futile.like(b.table, w); y != nil {
		w.Err = y.Err
		return false
	}
	if w.Err = b.try(w); !Scarce(w.Err) {
		return true
	}
	b.futile = append(b.futile, w)
	return false
}

// Join puts a newcomer among those who wait, unless they are too many. In any case a
// pass is due, and then Stay.
func (b *Backlog[T]) Join(w *Waiter[T]) {
	w.entry = queue.Entry[*Waiter[T]]{
		Value: w, Class: w.Class, Tenant: w.Tenant,
		Until: w.Request.Arrival + b.patience(w.Request),
		Cost:  float64(w.Request.PromptTokens) + max(1, b.limits.Output),
	}
	if !b.queue.Full() {
		b.queue.Push(&w.entry)
	}
}

// Stay decides on a newcomer that the pass has not begun. A refusal says why it may
// not wait. Otherwise it waits, or with settled set it has been begun, or cannot be, by
// its Err. One who waited before may have to make way for it: that is displaced.
func (b *Backlog[T]) Stay(w *Waiter[T], now time.Duration) (settled bool, displaced *Waiter[T], refusal error) {
	if w.entry.Waits() {
		if b.tooLong(w, 0, now) && b.queue.Remove(&w.entry) {
			return false, nil, b.Refusal(w, now)
		}
		return false, nil, nil
	}
	// Nobody makes way for one that there is room for though not for the others, or
	// that would wait in vain.
	if w.Err = b.try(w); !Scarce(w.Err) {
		return true, nil, nil
	}
	if b.queue.Admits(&w.entry) && b.tooLong(w, 1, now) {
		return false, nil, b.Refusal(w, now)
	}
	e, ok := b.queue.Push(&w.entry)
	if !ok {
		return false, nil, b.refuse(RefusedFull, w.Class, w.Tenant, now)
	}
	if e != nil {
		displaced = e.Value
		displaced.Err = b.refuse(RefusedDisplaced, displaced.Class, displaced.Tenant, now)
	}
	return false, displaced, nil
}

// tooLong reports whether the request will not have its turn in time, by the rate at
// which requests are begun. Own is how many of those ahead the queue does not know: the
// request, if it does not wait.
func (b *Backlog[T]) tooLong(w *Waiter[T], own int, now time.Duration) bool {
	ahead := b.queue.Ahead(w.Class, w.Tenant, w.entry.Until) + own // itself among them
	wait, known := b.drain.Wait(ahead, now)
	return known && now+wait > w.entry.Until
}

// Leave takes out one whose client has left. It reports false if it does not wait any more.
func (b *Backlog[T]) Leave(w *Waiter[T]) bool { return b.queue.Remove(&w.entry) }

// Expire removes those whose time is over; Err of each is its refusal.
func (b *Backlog[T]) Expire(now time.Duration, over []*Waiter[T]) []*Waiter[T] {
	for _, e := range b.queue.Expire(now) {
		e.Value.Err = b.Refusal(e.Value, now)
		over = append(over, e.Value)
	}
	return over
}

// Empty removes any one; nil if none waits.
func (b *Backlog[T]) Empty() *Waiter[T] {
	e := b.queue.Take(func(*queue.Entry[*Waiter[T]]) bool { return true })
	if e == nil {
		return nil
	}
	return e.Value
}

// Due is when the next pass is due if nothing happens before; false if nothing waits.
// It comes after the last call at each moment.
func (b *Backlog[T]) Due(now time.Duration) (at time.Duration, ok bool) {
	until, ok := b.queue.Next()
	if !ok {
		b.drain.Reset()
		return 0, false
	}
	return max(now+time.Millisecond, min(until, now+Recheck)), true
}

// patience is how long a request may wait.
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

// Refusal refuses a request by what the last try to begin it said.
func (b *Backlog[T]) Refusal(w *Waiter[T], now time.Duration) Refusal {
	return b.refuse(Refused(w.Err), w.Class, w.Tenant, now)
}

func (b *Backlog[T]) refuse(reason string, class int, tenant string, now time.Duration) Refusal {
	ahead := b.queue.Ahead(class, tenant, now+b.limits.MaxWait)
	return Refusal{reason, b.drain.RetryAfter(ahead, now, b.limits.RetryAfter, b.limits.MaxRetryAfter)}
}

// Refusal is why a request is not begun under load, and when its client should come again.
type Refusal struct {
	Reason string // one of the Refused constants
	After  time.Duration
}

func (e Refusal) Error() string { return fmt.Sprintf("refused under load: %s", e.Reason) }

// Why a request is refused. They are few and fixed, so they can label a metric.
const (
	RefusedLate      = "deadline"   // no replica could answer it in time
	RefusedFull      = "queue_full" // too many wait
	RefusedDisplaced = "displaced"  // one with more claim took its place in the queue
	RefusedSaturated = "saturated"  // every replica that could answer is full
	RefusedNoReplica = "no_replica" // none that could answer is up
)

// Refused is the reason by an error of [Core.Route]; empty if that is of another kind.
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
