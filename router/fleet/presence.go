package fleet

// Presence says whether the replica has an engine. Where engines come and go, replicas are slots of the catalogue:
// an engine takes one, and frees it when it ends.
type Presence uint8

const (
	// Present means that the engine is there. All replicas of a new ledger are Present.
	Present Presence = iota
	// Ending keeps new requests away from an engine that is about to end, or not ready. It finishes what it has.
	Ending
	// Vacant means a slot without an engine. It has not failed.
	Vacant
)

// SetPresence sets whether the replica has an engine. It is independent of [Ledger.Place], [Ledger.SetUp] and
// [Ledger.SetDrained]. Leases outlive it: requests in flight on an engine that is gone count until they end.
func (l *Ledger) SetPresence(replica int, p Presence) {
	l.mu.Lock()
	changed := l.presenceOf(replica) != p
	if changed {
		l.presence = set(l.presence, len(l.table.Replicas), replica, p)
		l.turn(replica)
	}
	l.mu.Unlock()
	if changed {
		l.notifyRoom()
	}
}

// Presence returns the replica's presence.
func (l *Ledger) Presence(replica int) Presence {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.presenceOf(replica)
}

// presenceOf returns the replica's presence. The lock is held.
func (l *Ledger) presenceOf(replica int) Presence {
	if len(l.presence) == 0 {
		return Present
	}
	return l.presence[replica]
}
