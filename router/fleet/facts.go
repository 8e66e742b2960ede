package fleet

import "time"

// Facts are what views show of replicas and hosts besides their load. What is of no replica or
// host is an empty list, so that views copy nothing where it is never used.
type Facts struct {
	// States are those of the replicas; empty where all are up.
	States []State
	// Ready is, by replica that is being loaded or woken, when that is expected to end, on the
	// clock of [View.Now] ([Ledger.Expect]). Zero is unknown.
	Ready []time.Duration
	// Newer marks the replicas with a version of their model that replaces another
	// ([Ledger.MarkNewer]).
	Newer []bool
	// Busy is, by host, the share of it that was in use lately ([Ledger.SetBusy]).
	Busy []float32
}

func (f *Facts) copyFrom(o *Facts) {
	f.States = append(f.States[:0], o.States...)
	f.Ready = append(f.Ready[:0], o.Ready...)
	f.Newer = append(f.Newer[:0], o.Newer...)
	f.Busy = append(f.Busy[:0], o.Busy...)
}

// turn notes a replica's state. One that is not being loaded any more is not expected either.
func (f *Facts) turn(replicas, replica int, s State) {
	if len(f.States) > 0 || s != Up {
		f.States = set(f.States, replicas, replica, s)
	}
	if len(f.Ready) > 0 && s != Loading {
		f.Ready = set(f.Ready, replicas, replica, 0)
	}
}

// Expect sets when the replica, which is being loaded or woken, is expected to be up. That is
// forgotten once its state changes.
func (l *Ledger) Expect(replica int, up time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state(replica) == Loading {
		l.facts.Ready = set(l.facts.Ready, len(l.table.Replicas), replica, up)
	}
}

// MarkNewer marks the replicas with a version of their model that replaces another, and no
// others.
func (l *Ledger) MarkNewer(replicas []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.facts.Newer = l.facts.Newer[:0]
	for _, r := range replicas {
		l.facts.Newer = set(l.facts.Newer, len(l.table.Replicas), r, true)
	}
}

// SetBusy sets the share of each host that was in use lately, by index.
func (l *Ledger) SetBusy(shares []float32) {
	l.mu.Lock()
	l.facts.Busy = append(l.facts.Busy[:0], shares...)
	l.mu.Unlock()
}

// State returns the replica's state, even if the request at hand may not have it
// ([View.Restrict]).
func (f *Facts) State(replica int) State {
	if len(f.States) == 0 {
		return Up
	}
	return f.States[replica]
}

// UpAt returns when a load of the replica is expected to end; ok is false where none is under
// way, or that is not known.
func (f *Facts) UpAt(replica int) (at time.Duration, ok bool) {
	if len(f.Ready) == 0 || f.Ready[replica] == 0 {
		return 0, false
	}
	return f.Ready[replica], true
}

// IsNewer reports whether the replica has a version of its model that replaces another.
func (f *Facts) IsNewer(replica int) bool { return len(f.Newer) > 0 && f.Newer[replica] }

// BusyShare returns the share of the host that was in use lately; zero where nobody measures it.
func (f *Facts) BusyShare(host int) float64 {
	if len(f.Busy) == 0 {
		return 0
	}
	return float64(f.Busy[host])
}
