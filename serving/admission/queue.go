// Package admission is the queue before the fleet: which requests begin at once, which wait
// in which order, and which are refused, and why; and the connections before that.
package admission

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving/config"
	"gearshift/serving/work"
)

// Queue is where requests wait that no replica has room for now. The goroutine that makes
// room serves it: the one that ends a lease, or takes a replica up, begins the work
// of those who wait, in order, and wakes them. A waiter is its handler's goroutine
// and nothing else; one timer serves all.
//
// No waiter is forgotten: one is counted before it is tried, and a goroutine that makes room
// does so before it looks at the count.
type Queue struct {
	settings func() *config.Config
	output   float64 // mean output tokens; zero is unknown
	clock    work.Clock
	events   Events
	classes  atomic.Pointer[classes]

	// How many wait, and how many of them are held for a replica to be loaded or woken, for those who hold no lock;
	// and the placement in which they were last tried.
	waiting, held atomic.Int64
	epoch         atomic.Uint64
	ledger        *fleet.Ledger

	mu      sync.Mutex // protects all below
	backlog *router.Backlog[*waiter]
	timer   *time.Timer
	closed  bool
}

// Events receives what the queue reports.
type Events interface {
	// Open is called with the classes that there are.
	Open(classes []string)
	// Waited is called once a request of the class begins after a wait.
	Waited(class string, d time.Duration)
	// Held is called once a request is held no longer for a replica of the variant to be loaded or woken, after so long.
	Held(variant int, result string, d time.Duration)
}

// Output is the mean length of an answer in tokens; zero is unknown.
func (q *Queue) Output() float64 { return q.output }

// Waits reports whether any request waits.
func (q *Queue) Waits() bool { return q.waiting.Load() > 0 }

// Holds has requests held for replicas to be loaded or woken, within serving.hold. It is called before requests come.
func (q *Queue) Holds(h router.Holder) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.backlog.Holds(h)
}

// Expected is how many tokens a request is expected to take, of its prompt and of so
// many answers, of at most maxTokens each if that is not zero.
func (q *Queue) Expected(prompt, answers, maxTokens int) int64 {
	mean := q.output
	switch {
	case maxTokens > 0 && (mean == 0 || float64(maxTokens) < mean):
		mean = float64(maxTokens)
	case mean == 0:
		mean = 1
	}
	return int64(prompt) + int64(math.Ceil(mean))*int64(answers)
}

// Default returns the flow of requests for a task that name neither class nor tenant.
func (q *Queue) Default(task int) FlowKey { return FlowKey{Class: q.classes.Load().byTask[task]} }

// First returns the variant that requests of the flow get first under load; nil if there is none.
func (q *Queue) First(k FlowKey) *fleet.First { return q.classes.Load().first[k.Class] }

// waiter is a request in the backlog.
type waiter struct {
	router.Waiter[*waiter]
	work     *work.Work
	observer router.Observer // may be nil
	answer   chan error      // room for one; nil: the work has begun
	settled  bool            // an answer has been sent
}

func (x *waiter) begin() error { return x.work.Begin(x.Variant, x.observer) }

// NewQueue makes a queue before the router's replicas. Output is the mean length of an answer
// in tokens; zero is unknown.
func NewQueue(settings func() *config.Config, r work.Router, output float64, clock work.Clock, events Events) *Queue {
	q := &Queue{settings: settings, output: output, clock: clock, events: events, ledger: r.Ledger()}
	known := (&classes{}).with(r.Table(), settings().Classes)
	q.classes.Store(known)
	q.events.Open(known.names())
	q.backlog = router.NewBacklog(r.Table(), known.all, q.limits(), func(w *router.Waiter[*waiter]) error { return w.Value.begin() })
	q.timer = time.AfterFunc(time.Hour, q.tick)
	q.timer.Stop()
	r.Ledger().OnRoom(q.room)
	return q
}

// limits are what bounds the waiting, as the settings now have it.
func (q *Queue) limits() router.Limits {
	return q.settings().Limits(q.output)
}

// Follow takes over the settings as they are now. Those who wait keep their places and
// the time that they were given.
func (q *Queue) Follow() {
	c := q.settings()
	q.mu.Lock()
	known := q.classes.Load().with(q.ledger.Table(), c.Classes)
	q.events.Open(known.names())
	q.backlog.Set(known.all, q.limits())
	q.classes.Store(known) // once the backlog knows them
	q.mu.Unlock()
	q.tick() // there may be room for more of them now
}

// Admit begins the work on the variant, or where the policy decides if that is [work.Auto]: now
// or after a wait, but not for longer than until. The observer, if there is one, is shown the
// decision. Errors are the router's, a [router.Refusal], or why the context ended.
func (q *Queue) Admit(ctx context.Context, w *work.Work, variant int, observer router.Observer, k FlowKey, until time.Duration) error {
	w.Request.First = q.First(k)
	var err error
	if q.waiting.Load() == q.held.Load() { // no request is overtaken that could begin
		if err = w.Begin(variant, observer); !q.waits(err) {
			return err
		}
	}
	if err != nil && q.settings().Overload.MaxQueue == 0 {
		return q.Refused(err, k)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, until-q.clock(), config.Overdue(config.PhaseTotal))
	defer cancel()
	x := &waiter{work: w, observer: observer, answer: make(chan error, 1)}
	x.Waiter = router.Waiter[*waiter]{Value: x, Request: &w.Request, Variant: variant, Class: k.Class, Tenant: k.Tenant}
	return q.wait(ctx, x)
}

// waits reports whether a request whose begin has failed with the error may wait.
func (q *Queue) waits(err error) bool {
	return router.Scarce(err) || errors.Is(err, router.ErrAsleep) && q.settings().Hold.For > 0
}

// Refused is the error for a request that does not wait.
func (q *Queue) Refused(err error, k FlowKey) error {
	if !router.Scarce(err) {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.backlog.Refusal(&router.Waiter[*waiter]{Class: k.Class, Tenant: k.Tenant, Err: err}, q.clock())
}

func (q *Queue) wait(ctx context.Context, x *waiter) error {
	x.work.Delay() // it is late by now, whichever goroutine tries it first
	if err := q.join(x); err != nil {
		return err
	}
	select {
	case err := <-x.answer:
		return err
	case <-ctx.Done():
		return q.leave(ctx, x)
	}
}

// join puts the request among those that wait and serves them. The error says why it
// may not wait; it may have been answered already.
func (q *Queue) join(x *waiter) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	now := q.clock()
	defer q.settle(now)
	q.backlog.Join(&x.Waiter)
	q.waiting.Store(int64(q.backlog.Len())) // before it is tried
	if q.serve(now); x.settled {
		return nil
	}
	begun, evicted, err := q.backlog.Stay(&x.Waiter, now)
	if begun {
		q.reportHeld(&x.Waiter, x.Err)
		x.answer <- x.Err
	}
	if evicted != nil {
		evicted.Value.answer <- evicted.Err
	}
	return err
}

// leave takes the request out because its context has ended. If it has been answered
// meanwhile, that counts: a place that it has got is given back by the goroutine that finds the
// context over.
func (q *Queue) leave(ctx context.Context, x *waiter) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.backlog.Leave(&x.Waiter) {
		return <-x.answer
	}
	q.settle(q.clock())
	q.reportHeld(&x.Waiter, context.Cause(ctx))
	return context.Cause(ctx)
}

// room is called when there may be more room than before. Those that are held have none until the placement changes.
func (q *Queue) room() {
	if n := q.waiting.Load(); n > q.held.Load() || n > 0 && q.epoch.Load() != q.ledger.Epoch() {
		q.tick()
	}
}

// tick serves the queue, and sends away those whose time is over.
func (q *Queue) tick() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.clock()
	q.serve(now)
	for _, w := range q.backlog.Expire(now, nil) {
		q.reportHeld(w, w.Err)
		w.Value.answer <- w.Err
	}
	q.settle(now)
}

// settle counts those who wait and sets the timer. The caller holds q.mu.
func (q *Queue) settle(now time.Duration) {
	q.waiting.Store(int64(q.backlog.Len()))
	q.held.Store(int64(q.backlog.Held()))
	at, ok := q.backlog.Due(now)
	if !ok || q.closed {
		q.timer.Stop()
		return
	}
	q.timer.Reset(at - now)
}

// serve begins the work of all for whom there is room, in order. The caller holds
// q.mu.
func (q *Queue) serve(now time.Duration) {
	q.epoch.Store(q.ledger.Epoch())
	q.backlog.Pass()
	for w := q.backlog.Next(now); w != nil; w = q.backlog.Next(now) {
		if w.Err == nil {
			q.events.Waited(q.Class(w.Class), w.Value.work.Waited)
		}
		q.reportHeld(w, w.Err)
		w.Value.settled = true
		w.Value.answer <- w.Err
	}
}

// Close sends away all who wait.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for w := q.backlog.Empty(); w != nil; w = q.backlog.Empty() {
		q.reportHeld(w, ErrClosed)
		w.Value.answer <- ErrClosed
	}
	q.settle(q.clock())
}

// ErrClosed says that the server is shutting down.
var ErrClosed = errors.New("shutting down")

// Lengths is how many requests wait of the classes that are listed, and of others of which
// some wait.
func (q *Queue) Lengths() (classes []string, waiting []int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	known := q.classes.Load()
	for _, i := range known.listed {
		classes, waiting = append(classes, known.all[i].Name), append(waiting, q.backlog.Waiting(i))
	}
	for i, c := range known.all {
		if n := q.backlog.Waiting(i); n > 0 && !slices.Contains(known.listed, i) {
			classes, waiting = append(classes, c.Name), append(waiting, n)
		}
	}
	return classes, waiting
}

// Class is the name of the class with the index.
func (q *Queue) Class(i int) string { return q.classes.Load().all[i].Name }
