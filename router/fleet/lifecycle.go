package fleet

import "fmt"

// State is the state of a replica in its lifecycle: whether its model is loaded, and whether
// it takes requests.
type State uint8

const (
	// Up is loaded and takes requests.
	Up State = iota
	// Cold is in the table, but not loaded.
	Cold
	// Loading is on its way up: being loaded, or woken.
	Loading
	// Warm is loaded, but asleep or not activated: it takes no requests, and is up
	// sooner than a cold replica.
	Warm
	// Draining takes nothing new and finishes what it has ([Ledger.SetDrained]), or is on
	// its way down: being unloaded, or put to sleep.
	Draining
	// Down has failed ([Ledger.SetUp]).
	Down
	// Absent is a slot without an engine ([Ledger.SetPresence]): it takes nothing, and has not failed.
	Absent
)

var stateNames = [...]string{Up: "up", Cold: "cold", Loading: "loading", Warm: "warm", Draining: "draining", Down: "down", Absent: "absent"}

// String returns the state's name in scenarios, metrics and the admin API.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// States returns all states, in the order of their numbers.
func States() []State { return []State{Up, Cold, Loading, Warm, Draining, Down, Absent} }

// Loaded reports whether a replica in s may have requests, or get some without being loaded or woken first.
func (s State) Loaded() bool { return s != Cold && s != Warm && s != Loading && s != Absent }

// There reports whether the replica has an engine that has not failed, and its model or a load of it under way. It
// may still take no requests now.
func (s State) There() bool { return s != Down && s != Cold && s != Absent }

// placeable reports whether a replica can be placed in s. It cannot be placed Down or Absent: failures and
// presence are set apart from placement.
func (s State) placeable() bool { return s < Down }

// placement is the state in which each replica has been placed, and when that last changed.
type placement struct {
	epoch uint64
	state []State  // by replica
	since []uint64 // by replica, the epoch that placed it; 0 for the table's own
}

func newPlacement(t *Table) placement {
	p := placement{state: make([]State, len(t.Replicas)), since: make([]uint64, len(t.Replicas))}
	for i := range t.Replicas {
		p.state[i] = t.Replicas[i].Initial
	}
	return p
}

func (p *placement) copyFrom(o *placement) {
	p.epoch = o.epoch
	p.state = append(p.state[:0], o.state...)
	p.since = append(p.since[:0], o.since...)
}

// Place sets that the replica is Up, Cold, Loading, Warm or Draining, and returns the epoch of the placement,
// which is a new one if that changes anything. Only a replica that is placed Up, has an engine, has not failed and is
// not drained takes requests. Place, [Ledger.SetUp], [Ledger.SetDrained] and [Ledger.SetPresence] are independent of
// each other. Leases outlive epochs: requests in flight stay in flight.
//
// Place panics if no replica can be placed in s.
func (l *Ledger) Place(replica int, s State) (epoch uint64) {
	if !s.placeable() {
		panic(fmt.Sprintf("fleet: no replica can be placed %v", s))
	}
	l.mu.Lock()
	changed := l.place(replica, s)
	epoch = l.placement.epoch
	l.mu.Unlock()
	if changed {
		l.notifyRoom()
	}
	return epoch
}

// PlaceSince is [Ledger.Place] for a controller that knows the epoch in which the replica
// was last placed ([Ledger.EpochOf]). It begins a new epoch even if the state does not
// change: the replica is reserved for the controller from then on. It reports false, and
// changes nothing, if another has placed the replica since, so that of two controllers only
// one acts on it.
//
// PlaceSince panics if no replica can be placed in s.
func (l *Ledger) PlaceSince(replica int, since uint64, s State) (epoch uint64, ok bool) {
	if !s.placeable() {
		panic(fmt.Sprintf("fleet: no replica can be placed %v", s))
	}
	l.mu.Lock()
	p := &l.placement
	changed := false
	if ok = p.since[replica] == since; ok {
		if changed = l.place(replica, s); !changed {
			p.epoch++
			p.since[replica] = p.epoch
		}
	}
	epoch = p.epoch
	l.mu.Unlock()
	if changed {
		l.notifyRoom()
	}
	return epoch, ok
}

// place reports whether it changed anything. The lock is held.
func (l *Ledger) place(replica int, s State) bool {
	p := &l.placement
	if p.state[replica] == s {
		return false
	}
	p.epoch++
	p.state[replica], p.since[replica] = s, p.epoch
	l.turn(replica)
	return true
}

// State returns the replica's state: Absent without an engine, Down if it has failed, Draining if it is
// drained, or its engine is ending, and it is placed Up, and otherwise the state in which it was placed.
func (l *Ledger) State(replica int) State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state(replica)
}

// state is State with the lock held.
func (l *Ledger) state(replica int) State {
	placed, presence := l.placement.state[replica], l.presenceOf(replica)
	switch {
	case presence == Vacant:
		return Absent
	case l.failed[replica]:
		return Down
	case (l.drained[replica] || presence == Ending) && placed == Up:
		return Draining
	}
	return placed
}

// Placed returns the state in which the replica was placed, even if it has failed or is
// drained.
func (l *Ledger) Placed(replica int) State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.placement.state[replica]
}

// Epoch returns the number of the current placement: it counts the changes by [Ledger.Place]
// and [Ledger.PlaceSince].
func (l *Ledger) Epoch() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.placement.epoch
}

// EpochOf returns the epoch in which the replica was last placed; 0 if it is in the table's
// initial state.
func (l *Ledger) EpochOf(replica int) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.placement.since[replica]
}
