package agents

import (
	"sync"
	"time"

	"gearshift/router/control"
)

// Runner wakes controllers when they are due, one at a time, on one goroutine: at the
// earliest time that they ask for, and whenever something has happened.
type Runner struct {
	// After, if set before Start, is called whenever controllers have been woken, under no
	// lock.
	After func()

	clock func() time.Duration

	mu    sync.Mutex // protects what follows
	set   *control.Set
	ended bool
	nudge chan struct{}
	stop  chan struct{}
	done  sync.WaitGroup
}

// NewRunner makes a Runner, which begins with [Runner.Start]. Events that come before are
// kept by the controllers.
func NewRunner(clock func() time.Duration, controllers ...control.Controller) *Runner {
	return &Runner{clock: clock, set: control.NewSet(controllers...), nudge: make(chan struct{}, 1), stop: make(chan struct{})}
}

// Add adds a controller after the others, before Start.
func (r *Runner) Add(c control.Controller) { r.set.Add(c) }

// Start begins to wake the controllers, until [Runner.Stop].
func (r *Runner) Start() { r.done.Go(r.run) }

// Stop ends it, and returns once no controller is at work.
func (r *Runner) Stop() {
	r.mu.Lock()
	ended := r.ended
	r.ended = true
	r.mu.Unlock()
	if !ended {
		close(r.stop)
	}
	r.done.Wait()
}

// Observe hands an event to the controllers, and has them woken. It is called from any
// goroutine.
func (r *Runner) Observe(e control.Event) {
	r.Do(func() { r.set.Observe(e) })
}

// Note hands an event to the controllers, which see it when they are woken next.
func (r *Runner) Note(e control.Event) { r.Look(func() { r.set.Observe(e) }) }

// Do calls f while no controller is at work, and has them woken after it: f may report to them
// something.
func (r *Runner) Do(f func()) {
	r.mu.Lock()
	f()
	r.mu.Unlock()
	r.Nudge()
}

// Look calls f while no controller is at work: f may ask them something.
func (r *Runner) Look(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// Nudge has the controllers woken soon, since something that they wait for may have come.
// It does not wait for them.
func (r *Runner) Nudge() {
	select {
	case r.nudge <- struct{}{}:
	default: // they will be
	}
}

// Settle wakes the controllers now, unless they are stopped.
func (r *Runner) Settle() {
	r.Look(func() {
		if now := r.clock(); !r.ended {
			r.set.Rouse(now)
			r.set.Wake(now)
		}
	})
	r.Nudge() // for what they want to be woken at
}

// run wakes the controllers until the end.
func (r *Runner) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-r.nudge:
		case <-timer.C:
		}
		next := r.wake()
		if r.After != nil {
			r.After()
		}
		if next != control.Never {
			timer.Reset(max(0, next-r.clock()))
		} else {
			timer.Stop()
		}
	}
}

// wake wakes every controller, and returns when the first of them wants to be again. What
// one does may be news to another: they are woken in their order.
func (r *Runner) wake() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock()
	r.set.Rouse(now)
	return r.set.Wake(now)
}
