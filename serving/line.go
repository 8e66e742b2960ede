package serving

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gearshift/router"
	"gearshift/serving/config"
	"gearshift/serving/work"
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
	clock    work.Clock
	events   queueEvents
	kinds    atomic.Pointer[kinds]

	waiting atomic.Int64 // how many wait, for those who hold no lock

	mu      sync.Mutex // protects all below
	backlog *router.Backlog[*waiter]
	timer   *time.Timer
	closed  bool
}

// queueEvents is what the queue reports.
type queueEvents interface {
	// Open is called with the classes that there are.
	Open(classes []string)
	// Waited is called once a request of the class begins after a wait.
	Waited(class string, d time.Duration)
}

// waiter is a request in the backlog.
type waiter struct {
	router.Waiter[*waiter]
	work    *work.Work
	witness router.Observer // may be nil
	answer  chan error      // room for one; nil: the work has begun
	settled bool            // an answer has been sent
}

func (x *waiter) begin() error { return x.work.Begin(x.Variant, x.witness) }

func newLine(settings func() *Config, r work.Router, output float64, clock work.Clock, events queueEvents) *line {
	l := &line{settings: settings, output: output, clock: clock, events: events}
	kinds := (&kinds{}).with(settings().Classes)
	l.kinds.Store(kinds)
	l.events.Open(kinds.names())
	l.backlog = router.NewBacklog(r.Table(), kinds.all, l.limits(), func(w *router.Waiter[*waiter]) error { return w.Value.begin() })
	l.timer = time.AfterFunc(time.Hour, l.tick)
	l.timer.Stop()
	r.Ledger().OnRoom(l.room)
	return l
}

// limits are what bounds the waiting, as the settings now have it.
func (l *line) limits() router.Limits {
	c := l.settings()
	return c.Overload.Limits(l.output, c.RetryAfter)
}

// follow takes over the settings as they are now. Those who wait keep their places and
// the time that they were given.
func (l *line) follow() {
	c := l.settings()
	l.mu.Lock()
	kinds := l.kinds.Load().with(c.Classes)
	l.events.Open(kinds.names())
	l.backlog.Set(kinds.all, l.limits())
	l.kinds.Store(kinds) // once the backlog knows them
	l.mu.Unlock()
	l.tick() // there may be room for more of them now
}

// admit begins the work, now or after a wait, but not for longer than until. Errors are the
// router's, a [router.Refusal], or why the context ended.
func (l *line) admit(ctx context.Context, w *work.Work, c call, k claim, until time.Duration) error {
	var err error
	witness := c.account.observer(c.fleet)
	if l.waiting.Load() == 0 { // nobody is overtaken
		if err = w.Begin(c.variant, witness); !router.Scarce(err) {
			return err
		}
	}
	if err != nil && l.settings().Overload.MaxQueue == 0 {
		return l.refused(err, k)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, until-l.clock(), config.Overdue(config.PhaseTotal))
	defer cancel()
	x := &waiter{work: w, witness: witness, answer: make(chan error, 1)}
	x.Waiter = router.Waiter[*waiter]{Value: x, Request: &w.Request, Variant: c.variant, Class: k.class, Tenant: k.tenant}
	return l.wait(ctx, x)
}

// refused is the error for a request that does not wait.
func (l *line) refused(err error, k claim) error {
	if !router.Scarce(err) {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.backlog.Refusal(&router.Waiter[*waiter]{Class: k.class, Tenant: k.tenant, Err: err}, l.clock())
}

func (l *line) wait(ctx context.Context, x *waiter) error {
	x.work.Delay() // it is late by now, whichever goroutine tries it first
	if err := l.join(x); err != nil {
		return err
	}
	select {
	case err := <-x.answer:
		return err
	case <-ctx.Done():
		return l.leave(ctx, x)
	}
}

// join puts the request among those that wait and serves them. The error says why it
// may not wait; it may have been answered already.
func (l *line) join(x *waiter) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed
	}
	now := l.clock()
	defer l.settle(now)
	l.backlog.Join(&x.Waiter)
	l.waiting.Store(int64(l.backlog.Len())) // before it is tried
	if l.serve(now); x.settled {
		return nil
	}
	begun, displaced, err := l.backlog.Stay(&x.Waiter, now)
	if begun {
		x.answer <- x.Err
	}
	if displaced != nil {
		displaced.Value.answer <- displaced.Err
	}
	return err
}

// leave takes the request out because its context has ended. If it has been answered
// meanwhile, that counts: a place that it has got is given back by the goroutine that finds the
// context over.
func (l *line) leave(ctx context.Context, x *waiter) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.backlog.Leave(&x.Waiter) {
		return <-x.answer
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
	for _, w := range l.backlog.Expire(now, nil) {
		w.Value.answer <- w.Err
	}
	l.settle(now)
}

// settle counts those who wait and sets the timer. The caller holds l.mu.
func (l *line) settle(now time.Duration) {
	l.waiting.Store(int64(l.backlog.Len()))
	at, ok := l.backlog.Due(now)
	if !ok || l.closed {
		l.timer.Stop()
		return
	}
	l.timer.Reset(at - now)
}

// serve begins the work of all for whom there is room, in order. The caller holds
// l.mu.
func (l *line) serve(now time.Duration) {
	l.backlog.Pass()
	for w := l.backlog.Next(now); w != nil; w = l.backlog.Next(now) {
		if w.Err == nil {
			l.events.Waited(l.class(w.Class), w.Value.work.Waited)
		}
		w.Value.settled = true
		w.Value.answer <- w.Err
	}
}

// close sends away all who wait.
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for w := l.backlog.Empty(); w != nil; w = l.backlog.Empty() {
		w.Value.answer <- errClosed
	}
	l.settle(l.clock())
}

// errClosed says that the server is shutting down.
var errClosed = errors.New("shutting down")

// lengths is how many requests wait of the classes that are listed, and of others of which
// some wait.
func (l *line) lengths() (classes []string, waiting []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kinds := l.kinds.Load()
	for _, i := range kinds.listed {
		classes, waiting = append(classes, kinds.all[i].Name), append(waiting, l.backlog.Waiting(i))
	}
	for i, c := range kinds.all {
		if n := l.backlog.Waiting(i); n > 0 && !slices.Contains(kinds.listed, i) {
			classes, waiting = append(classes, c.Name), append(waiting, n)
		}
	}
	return classes, waiting
}
