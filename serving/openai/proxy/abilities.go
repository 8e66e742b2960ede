package proxy

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// This file remembers which replicas lack an endpoint, by what their engines answered:
// not every engine has every endpoint. Time is passed in.

// AbilityMemory bounds for how long an engine's answer counts: the engine may be replaced.
const AbilityMemory = 5 * time.Minute

// Abilities holds what is known of each endpoint. Its methods may be called from any goroutine.
type Abilities struct {
	mu    sync.Mutex // held by those who change the lists
	lists []atomic.Pointer[list]
}

// list is the replicas that lack an endpoint. It is replaced as a whole.
type list struct {
	replicas []int // in ascending order
	until    []time.Duration
	first    time.Duration // the earliest of until
}

// NewAbilities makes a table for so many endpoints, of which no replica is known to lack any.
func NewAbilities(endpoints int) *Abilities {
	return &Abilities{lists: make([]atomic.Pointer[list], endpoints)}
}

// Lacking lists the replicas that are known to lack the endpoint, in ascending order; nil
// without any. It is not to be changed.
func (t *Abilities) Lacking(endpoint int, now time.Duration) []int {
	l := t.lists[endpoint].Load()
	if l == nil {
		return nil
	}
	if now < l.first {
		return l.replicas
	}
	t.change(endpoint, func(_ int, until time.Duration) bool { return now < until })
	if l = t.lists[endpoint].Load(); l == nil {
		return nil
	}
	return l.replicas
}

// Lacks notes that the replica lacks the endpoint. It reports false if that is known.
func (t *Abilities) Lacks(endpoint, replica int, now time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := &list{}
	known := false
	if l := t.lists[endpoint].Load(); l != nil {
		*next = list{slices.Clone(l.replicas), slices.Clone(l.until), 0}
	}
	at, found := slices.BinarySearch(next.replicas, replica)
	if found {
		known = now < next.until[at]
		next.until[at] = now + AbilityMemory
	} else {
		next.replicas, next.until = slices.Insert(next.replicas, at, replica), slices.Insert(next.until, at, now+AbilityMemory)
	}
	t.put(endpoint, next)
	return !known
}

// Forget drops what is known of the replica: its engine may be another from now on.
func (t *Abilities) Forget(replica int) {
	for endpoint := range t.lists {
		if l := t.lists[endpoint].Load(); l != nil && slices.Contains(l.replicas, replica) {
			t.change(endpoint, func(i int, _ time.Duration) bool { return i != replica })
		}
	}
}

// change keeps of the endpoint's list what keep reports true for.
func (t *Abilities) change(endpoint int, keep func(replica int, until time.Duration) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lists[endpoint].Load()
	if l == nil {
		return
	}
	next := &list{}
	for i, replica := range l.replicas {
		if keep(replica, l.until[i]) {
			next.replicas, next.until = append(next.replicas, replica), append(next.until, l.until[i])
		}
	}
	t.put(endpoint, next)
}

// put replaces the endpoint's list. The caller holds t.mu.
func (t *Abilities) put(endpoint int, l *list) {
	if len(l.replicas) == 0 {
		t.lists[endpoint].Store(nil)
		return
	}
	l.first = slices.Min(l.until)
	t.lists[endpoint].Store(l)
}
