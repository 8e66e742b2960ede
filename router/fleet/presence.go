package fleet

// Presence says whether the replica has an engine. Replicas of a fleet whose engines come and go are slots of the
// catalogue: an engine takes one, and gives it back when it ends.
type Presence uint8

const (
	// Present is the presence of a replica whose engine is there. All replicas of a new ledger are.
	Present Presence = iota
	// Ending keeps new requests away from an engine that is about to end, or not ready. It finishes what it has.
	Ending
	// Vacant is a slot without an engine. It has not failed.
	Vacant
)

// SetPresence sets whether the replica has an engine. It is independent of [Ledger.Place], [Ledger.SetUp] and
// [Ledger.SetDrained]. Leases outlive it: what was in flight on an engine that is gone counts until it ends.
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

// Presence returns what [Ledger.SetPresence] has set.
func (l *Ledger) Presence(replica int) Presence {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.presenceOf(replica)
}

// presenceOf is Presence with the lock held.
func (l *Ledger) presenceOf(replica int) Presence {
	if len(l.presence) == 0 {
		return Present
	}
	return l.presence[replica]
}
