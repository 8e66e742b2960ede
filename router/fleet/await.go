package fleet

import "time"

// Await adds to the number of requests that are held until a replica of the variant is up. It notifies of no room.
func (l *Ledger) Await(variant, by int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awaited = set(l.awaited, len(l.table.Variants), variant, int32(l.awaitedOf(variant)+by))
}

// Awaited returns how many requests are held until a replica of the variant is up.
func (l *Ledger) Awaited(variant int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.awaitedOf(variant)
}

// awaitedOf counts for Awaited. The lock must be held.
func (l *Ledger) awaitedOf(variant int) int {
	if len(l.awaited) == 0 {
		return 0
	}
	return int(l.awaited[variant])
}

// States appends the states of all replicas to dst; see [Ledger.State].
func (l *Ledger) States(dst []State) []State {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.table.Replicas {
		dst = append(dst, l.state(i))
	}
	return dst
}

// UpAt returns when a load or a wake of the replica is expected to end; see [Facts.UpAt].
func (l *Ledger) UpAt(replica int) (at time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.facts.UpAt(replica)
}
