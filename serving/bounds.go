package serving

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// promise is the latency per token from which on the work is worth nothing; zero if it
// was forecast to take longer where it began: then there is nothing to keep.
func (w *Work) promise() time.Duration {
	task := &w.adapter.router.Table().Tasks[w.Request.Task]
	last := task.Last(w.Request.Deadline)
	if w.Pace*float64(task.Allowed(w.Request.Deadline)) > float64(last) {
		return 0
	}
	return last
}

// keep has a request's deadline kept on the replica, until its release.
func (a *Adapter) keep(replica int, deadline time.Duration) time.Duration {
	a.bounds[replica].add(deadline)
	return deadline
}

func (a *Adapter) release(replica int, deadline time.Duration) { a.bounds[replica].remove(deadline) }

// Tightest implements fleet.Bounder.
func (a *Adapter) Tightest(replica int) time.Duration { return a.bounds[replica].tightest() }

// bounds are the deadlines that the requests on one replica can hold. Few differ: they
// are the tasks', but for requests that bring their own.
type bounds struct {
	least atomic.Int64 // the tightest; 0 without any

	mu    sync.Mutex // protects all below
	kinds []bound
}

// bound is how many requests have a deadline.
type bound struct {
	deadline time.Duration
	requests int
}

func (b *bounds) tightest() time.Duration { return time.Duration(b.least.Load()) }

// add counts a deadline; zero is none.
func (b *bounds) add(deadline time.Duration) {
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

// remove undoes add.
func (b *bounds) remove(deadline time.Duration) {
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

func (b *bounds) find(deadline time.Duration) int {
	return slices.IndexFunc(b.kinds, func(k bound) bool { return k.deadline == deadline })
}

func (b *bounds) settle() {
	var least time.Duration
	for _, k := range b.kinds {
		if least == 0 || k.deadline < least {
			least = k.deadline
		}
	}
	b.least.Store(int64(least))
}
