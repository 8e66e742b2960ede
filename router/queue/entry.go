package queue

import "time"

// Class is a class of requests. Those of higher priority go first, whatever waits
// below; classes of equal priority get places in proportion to their shares.
type Class struct {
	Name     string
	Priority int
	Share    float64
}

// Entry is what waits. Its owner sets the exported fields and leaves them be while
// it is in a queue.
type Entry[T any] struct {
	Value T
	// Class is an index of the queue's classes.
	Class int
	// Tenant is whose it is. Within a class, tenants get equal shares.
	Tenant string
	// Until is the latest time at which it is worth beginning. A tenant's entries
	// go in this order.
	Until time.Duration
	// Cost is what it takes of its tenant's share, above zero. Zero counts as 1.
	Cost float64

	arrival uint64
	in      *flow[T] // nil unless it waits
}

// Waits reports whether the entry is in a queue.
func (e *Entry[T]) Waits() bool { return e.in != nil }
