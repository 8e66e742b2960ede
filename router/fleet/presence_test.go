package fleet

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Whether a replica takes requests follows from four facts, in whatever order they are set: its placement, its health,
// the operator's drain, and whether it has an engine. Leases outlive all of them.
func TestPresenceComposes(t *testing.T) {
	l := NewLedger(table(t))
	lease, ok := l.Begin(0, 0)
	if !ok {
		t.Fatal("no place")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var up, drained, presence, placed = true, false, Present, Up
	var v View
	for n := range 2000 {
		switch rng.IntN(4) {
		case 0:
			up = rng.IntN(2) == 0
			l.SetUp(0, up)
		case 1:
			drained = rng.IntN(2) == 0
			l.SetDrained(0, drained)
		case 2:
			presence = Presence(rng.IntN(3))
			l.SetPresence(0, presence)
		case 3:
			placed = []State{Up, Cold, Warm}[rng.IntN(3)]
			l.Place(0, placed)
		}
		takes := up && !drained && presence == Present && placed == Up
		want := placed
		switch {
		case presence == Vacant:
			want = Absent
		case !up:
			want = Down
		case placed == Up && !takes:
			want = Draining
		}
		l.View(0, &v)
		if got := l.State(0); got != want || v.State(0) != want || v.Down[0] == takes || l.Presence(0) != presence {
			t.Fatalf("step %d: up %v, drained %v, presence %v, placed %v: the state is %v, and %v in the view, down %v; want %v", n, up, drained, presence, placed, got, v.State(0), v.Down[0], want)
		}
		if !slices.Equal(l.States(nil)[:1], []State{want}) || l.InFlightOn(0) != 1 {
			t.Fatalf("step %d: %v, %d in flight", n, l.States(nil), l.InFlightOn(0))
		}
	}
	copied := new(Ledger)
	copied.CopyFrom(l)
	if copied.Presence(0) != l.Presence(0) {
		t.Error("the copy has another presence")
	}
	if !lease.End() || l.InFlight() != 0 {
		t.Error("the lease does not end")
	}
}

// An absent slot takes nothing, and an engine that takes it wakes waiting requests.
func TestVacantTakesNothing(t *testing.T) {
	l := NewLedger(table(t))
	woken := 0
	l.OnRoom(func() { woken++ })
	l.SetPresence(0, Vacant)
	l.SetPresence(0, Vacant) // changes nothing
	if _, ok := l.Begin(0, 0); ok || woken != 1 {
		t.Fatalf("a vacant slot takes a request: %v; woken %d times, want 1", ok, woken)
	}
	l.SetPresence(0, Present)
	if _, ok := l.Begin(0, 0); !ok || woken != 2 {
		t.Fatalf("a slot with an engine takes none, or woke %d times, want 2", woken)
	}
}
