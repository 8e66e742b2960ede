package router

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gearshift/router/fleet"
)

// Promise is the latency per token from which on a request of the task is worth
// nothing, to be kept where it was begun at that forecast pace; zero if the forecast
// was longer: then there is nothing to keep.
func Promise(task *fleet.Task, r *fleet.Request, pace float64) time.Duration {
	last := task.Last(r.Deadline)
	if pace*float64(task.Allowed(r.Deadline)) > float64(last) {
		return 0
	}
	return last
}

// Bounds are the deadlines that the requests on one replica can hold. Few differ: they
// are the tasks', but for requests that bring their own. The zero value has none. Its
// methods may be called from any goroutine.
type Bounds struct {
	least atomic.Int64 // the tightest; 0 without any

	mu    sync.Mutex // protects all below
	kinds []bound
}

// bound is how many requests have a deadline.
type bound struct {
	deadline time.Duration
	requests int
}

// Tightest of the deadlines; zero if there is none.
func (b *Bounds) Tightest() time.Duration { return time.Duration(b.least.Load()) }

// Add counts a deadline; zero is none.
func (b *Bounds) Add(deadline time.Duration) {
	if deadline == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := b.find(deadline); i >= 0 {
		b.kinds[i].requests++
		return
	}
	b.kinds = append(b.kinds, bound{deadline, 1})
	b.settle()
}

// Remove undoes Add.
func (b *Bounds) Remove(deadline time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.find(deadline)
	if i < 0 {
		return
	}
	if b.kinds[i].requests--; b.kinds[i].requests == 0 {
		b.kinds = slices.Delete(b.kinds, i, i+1)
		b.settle()
	}
}

func (b *Bounds) find(deadline time.Duration) int {
	return slices.IndexFunc(b.kinds, func(k bound) bool { return k.deadline == deadline })
}

func (b *Bounds) settle() {
	var least time.Duration
	for _, k := range b.kinds {
		if least == 0 || k.deadline < least {
			least = k.deadline
		}
	}
	b.least.Store(int64(least))
}
