package router

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gearshift/router/fleet"
)

// Promise returns the latency per token beyond which the request is worth nothing, which
// later requests on its replica must not push it past. It returns zero if the forecast pace
// at its start was beyond that already: then there is nothing to protect.
func Promise(task *fleet.Task, r *fleet.Request, pace float64) time.Duration {
	last := task.Last(r.Deadline)
	if pace*float64(task.Allowed(r.Deadline)) > float64(last) {
		return 0
	}
	return last
}

// Bounds counts the deadlines that the requests on one replica can still meet. Few differ:
// most are the tasks', the others come with requests. The zero value has none. Its methods
// may be called from any goroutine.
type Bounds struct {
	least atomic.Int64 // the tightest; 0 without any

	mu     sync.Mutex // protects counts
	counts []bound
}

// bound is how many requests have a deadline.
type bound struct {
	deadline time.Duration
	requests int
}

// Tightest returns the tightest deadline, or zero if there is none. It takes no lock, since
// decisions read it.
func (b *Bounds) Tightest() time.Duration { return time.Duration(b.least.Load()) }

// Add counts a deadline; zero is none.
func (b *Bounds) Add(deadline time.Duration) {
	if deadline == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := b.find(deadline); i >= 0 {
		b.counts[i].requests++
		return
	}
	b.counts = append(b.counts, bound{deadline, 1})
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
	if b.counts[i].requests--; b.counts[i].requests == 0 {
		b.counts = slices.Delete(b.counts, i, i+1)
		b.settle()
	}
}

func (b *Bounds) find(deadline time.Duration) int {
	return slices.IndexFunc(b.counts, func(k bound) bool { return k.deadline == deadline })
}

func (b *Bounds) settle() {
	var least time.Duration
	for _, k := range b.counts {
		if least == 0 || k.deadline < least {
			least = k.deadline
		}
	}
	b.least.Store(int64(least))
}
