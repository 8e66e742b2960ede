package serving

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/queue"
)

// line is where requests wait that no replica has room for now. Whoever makes room
// serves it: the goroutine that ends a lease, or takes a replica up, begins the work
// of those who wait, in order, and wakes them. A waiter is its handler's goroutine
// and nothing else; one timer serves all.
//
// Nobody is forgotten: a waiter is counted before it is tried, and who makes room
// does so before it looks at the count.
type line struct {
	settings func() *Config
	output   float64 // mean output tokens; zero is unknown
	table    *fleet.Table
	clock    Clock
	books    *lineBooks
	kinds    atomic.Pointer[kinds]

	waiting atomic.Int64 // len(queue), for those who hold no lock

	mu     sync.Mutex // protects all below
	queue  *queue.Queue[*waiter]
	drain  queue.Drain
	timer  *time.Timer
	closed bool
}

type waiter struct {
	work    *Work
	variant int
	witness router.Witness // may be nil
	err     error          // of the last try
	answer  chan error     // room for one; nil: the work has begun
}

func (x *waiter) begin() error { return x.work.Begin(x.variant, x.witness) }

// recheck is how often the line is served though nothing has happened: what a policy
// or a gate goes by may change without an event.
const recheck = 100 * time.Millisecond

// shed is why a request is refused under load, and when to come again.
type shed struct {
	reason string
	after  time.Duration
}

func (e shed) Error() string { return fmt.Sprintf("refused under load: %s", e.reason) }

func newLine(settings func() *Config, r Router, output float64, clock Clock) *line {
	l := &line{settings: settings, output: output, table: r.Table(), clock: clock, books: newLineBooks()}
	kinds := (&kinds{}).with(settings().Classes)
	l.kinds.Store(kinds)
	l.books.open(kinds.names())
	l.queue = queue.New[*waiter](kinds.all, settings().Overload.MaxQueue)
	l.timer = time.AfterFunc(time.Hour, l.tick)
	l.timer.Stop()
	r.Ledger().OnRoom(l.room)
	return l
}

// follow takes over the settings as they are now. Those who wait keep their places and
// the time that they were given.
func (l *line) follow() {
	c := l.settings()
	l.mu.Lock()
	kinds := l.kinds.Load().with(c.Classes)
	l.books.open(kinds.names())
	l.queue.Set(kinds.all, c.Overload.MaxQueue)
	l.kinds.Store(kinds) // once the queue knows them
	l.mu.Unlock()
	l.tick() // there may be room for more of them now
}

// admit begins the work, now or after a wait, but not for longer than until. Errors are the router's, a [shed], or
// why the context ended.
func (l *line) admit(ctx context.Context, w *Work, c call, k claim, until time.Duration) error {
	var err error
	x := &waiter{work: w, variant: c.variant, witness: c.account.witness(c.fleet)}
	if l.waiting.Load() == 0 { // nobody is overtaken
		if err = x.begin(); !scarce(err) {
			return err
		}
	}
	if err != nil && l.settings().Overload.MaxQueue == 0 {
		return l.refused(err, k)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, until-l.clock(), overdue(phaseTotal))
	defer cancel()
	return l.wait(ctx, x, k)
}

// scarce says that the fleet is short of room, for now.
func scarce(err error) bool {
	return errors.Is(err, router.ErrSaturated) || errors.Is(err, router.ErrLate)
}

// refused is the error for a request that does not wait.
func (l *line) refused(err error, k claim) error {
	if !scarce(err) {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shed(reasonOf(err), k, l.clock())
}

// shed refuses a request of the claim. The caller holds l.mu.
func (l *line) shed(reason string, k claim, now time.Duration) shed {
	c := l.settings()
	ahead := l.queue.Ahead(k.class, k.tenant, now+c.Overload.MaxWait)
	return shed{reason, l.drain.RetryAfter(ahead, now, c.RetryAfter, c.Overload.MaxRetryAfter)}
}

func (l *line) wait(ctx context.Context, x *waiter, k claim) error {
	w := x.work
	w.tried = true // it is late by now, whoever tries it first
	x.answer = make(chan error, 1)
	e := &queue.Entry[*waiter]{
		Value: x, Class: k.class, Tenant: k.tenant,
		Until: w.Request.Arrival + l.patience(&w.Request),
		Cost:  float64(w.Request.PromptTokens) + max(1, l.output),
	}
	if err := l.join(e, k); err != nil {
		return err
	}
	select {
	case err := <-x.answer:
		return err
	case <-ctx.Done():
		return l.leave(ctx, e)
	}
}

// join puts the entry into the queue and serves that. The error says why it may not
// wait; it may have been answered already.
func (l *line) join(e *queue.Entry[*waiter], k claim) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed
	}
	now := l.clock()
	defer l.settle(now)
	if l.queue.Full() {
		return l.squeeze(e, k, now)
	}
	l.queue.Push(e)
	l.waiting.Store(int64(l.queue.Len())) // before it is tried
	l.serve(now)
	if l.tooLong(e, 0, now) && l.queue.Remove(e) {
		return l.shed(reasonOf(e.Value.err), k, now)
	}
	return nil
}

// squeeze finds the entry a place in a queue that is full. Nobody makes way for one that
// there is room for though not for the others, or that would wait in vain. The caller
// holds l.mu.
func (l *line) squeeze(e *queue.Entry[*waiter], k claim, now time.Duration) error {
	l.serve(now)
	x := e.Value
	if x.err = x.begin(); !scarce(x.err) {
		x.answer <- x.err
		return nil
	}
	if l.queue.Admits(e) && l.tooLong(e, 1, now) {
		return l.shed(reasonOf(x.err), k, now)
	}
	displaced, ok := l.queue.Push(e)
	if !ok {
		return l.shed(reasonFull, k, now)
	}
	if displaced != nil {
		displaced.Value.answer <- l.shed(reasonDisplaced, claim{class: displaced.Class, tenant: displaced.Tenant}, now)
	}
	return nil
}

// tooLong says that the entry will not have its turn in time, by the rate at which
// the queue is served. Own is how many of those to be served the queue does not know:
// the entry, if it is not in there.
func (l *line) tooLong(e *queue.Entry[*waiter], own int, now time.Duration) bool {
	ahead := l.queue.Ahead(e.Class, e.Tenant, e.Until) + own // itself among them
	wait, known := l.drain.Wait(ahead, now)
	return known && now+wait > e.Until
}

// leave takes the entry out of the queue because its context has ended. If it has
// been answered meanwhile, that counts: a place that it has got is given back by
// whoever finds the context over.
func (l *line) leave(ctx context.Context, e *queue.Entry[*waiter]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.queue.Remove(e) {
		return <-e.Value.answer
	}
	l.settle(l.clock())
	return context.Cause(ctx)
}

// room is called when there may be more room than before.
func (l *line) room() {
	if l.waiting.Load() > 0 {
		l.tick()
	}
}

// tick serves the queue, and sends away those whose time is over.
func (l *line) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	l.serve(now)
	for _, e := range l.queue.Expire(now) {
		e.Value.answer <- l.shed(reasonOf(e.Value.err), claim{class: e.Class, tenant: e.Tenant}, now)
	}
	l.settle(now)
}

// settle counts those who wait and sets the timer. The caller holds l.mu.
func (l *line) settle(now time.Duration) {
	l.waiting.Store(int64(l.queue.Len()))
	until, ok := l.queue.Next()
	if !ok || l.closed {
		l.drain.Reset()
		l.timer.Stop()
		return
	}
	l.timer.Reset(max(time.Millisecond, min(until-now, recheck)))
}

// serve begins the work of all for whom there is room, in order. The caller holds
// l.mu.
func (l *line) serve(now time.Duration) {
	var f futile
	for {
		e := l.queue.Take(func(e *queue.Entry[*waiter]) bool {
			x := e.Value
			if y := f.like(x); y != nil {
				x.err = y.err
				return false
			}
			if x.err = x.begin(); !scarce(x.err) {
				return true
			}
			f = append(f, x)
			return false
		})
		if e == nil {
			return
		}
		if e.Value.err == nil {
			l.drain.Served(now)
			l.books.waited(l.class(e.Class), e.Value.work.Waited)
		}
		e.Value.answer <- e.Value.err
	}
}

// futile remembers what there was no room for, so that the like of it is not tried
// again: room only shrinks while a queue is served.
type futile []*waiter

// like is one of the same task and choice of variants, or replica, as x that asked for no more, or
// nil. There is no room for x if there is one. Where no place was free, what it asked of
// one is nothing to the matter; a lease that ends meanwhile lets none go ahead of it.
func (f futile) like(x *waiter) *waiter {
	r := &x.work.Request
	for _, y := range f {
		o := &y.work.Request
		if x.variant != y.variant || r.Only != o.Only || r.Variants != o.Variants || r.Holding != o.Holding || r.Task != o.Task || r.MinQuality < o.MinQuality || !slices.Equal(r.Without, o.Without) {
			continue
		}
		if errors.Is(y.err, router.ErrSaturated) || r.PromptTokens >= o.PromptTokens && r.Answers >= o.Answers && !looser(r.Deadline, o.Deadline) && due(r) <= due(o) {
			return y
		}
	}
	return nil
}

// looser says that deadline a gives more time than b; zero is the task's own, which
// is taken to be equal to none but itself.
func looser(a, b time.Duration) bool { return a != b && (a == 0 || b == 0 || a > b) }

// due is when the request's first token is; never without a deadline for it.
func due(r *fleet.Request) time.Duration {
	if r.FirstToken == 0 || r.FirstToken > math.MaxInt64-r.Arrival {
		return math.MaxInt64
	}
	return r.Arrival + r.FirstToken
}

// close sends away all who wait.
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for l.queue.Len() > 0 {
		e := l.queue.Take(func(*queue.Entry[*waiter]) bool { return true })
		e.Value.answer <- errClosed
	}
	l.settle(l.clock())
}

// errClosed says that the server is shutting down.
var errClosed = errors.New("shutting down")
