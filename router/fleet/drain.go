package fleet

// SetDrained keeps new requests away from a replica because someone wants that,
// or lets them in again. It is apart from SetUp: a drained replica stays so
// whatever its health does, and a sick one does when it is drained no more.
func (l *Ledger) SetDrained(replica int, drained bool) {
	l.mu.Lock()
	l.drained[replica] = drained
	l.turn(replica)
	l.mu.Unlock()
	l.notifyRoom()
}

// Drained reports whether the replica is, by SetDrained.
func (l *Ledger) Drained(replica int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.drained[replica]
}
