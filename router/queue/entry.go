package queue

import "time"

// Class is a priority class of requests. Classes of higher priority always go first;
// classes of equal priority are served in proportion to their shares.
type Class struct {
	Name     string
	Priority int
	Share    float64
}

// Entry is one waiting request. Its owner sets the exported fields, and does not change them
// while it is in a queue.
type Entry[T any] struct {
	Value T
	// Class is an index of the queue's classes.
	Class int
	// Tenant names the client that it is counted for. Within a class, tenants get equal
	// shares.
	Tenant string
	// Until is the latest time at which it is worth to begin. A tenant's entries go in this
	// order.
	Until time.Duration
	// Idle reports whether it waits for something else than its turn, so that [Queue.Ahead] leaves it out. It may
	// change while it waits.
	Idle bool
	// Cost is what it is charged to its tenant's share, above zero. Zero counts as 1.
	Cost float64

	arrival uint64
	in      *flow[T] // nil unless it waits
}

// Waits reports whether the entry is in a queue.
func (e *Entry[T]) Waits() bool { return e.in != nil }
