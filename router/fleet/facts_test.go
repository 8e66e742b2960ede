package fleet

import (
	"reflect"
	"testing"
	"time"
)

// factsOf are those that a view of the ledger shows.
func factsOf(l *Ledger) Facts {
	var v View
	l.View(0, &v)
	return v.Facts
}

// A view shows the states of replicas where not all are up, and nothing where they are.
func TestViewsShowStates(t *testing.T) {
	l := NewLedger(table(t))
	if f := factsOf(l); len(f.States) != 0 || f.State(1) != Up {
		t.Errorf("all are up, and a view shows %v", f.States)
	}
	l.SetUp(0, false)
	l.Place(1, Loading)
	l.SetDrained(2, true)
	if f := factsOf(l); !reflect.DeepEqual(f.States, []State{Down, Loading, Draining, Up}) || f.State(1) != Loading {
		t.Errorf("states %v", f.States)
	}
	l.SetUp(0, true)
	l.Place(1, Up)
	l.SetDrained(2, false)
	if f := factsOf(l); len(f.States) != 0 {
		t.Errorf("all are up again, and a view shows %v", f.States)
	}
	cold := table(t)
	cold.Replicas[3].Initial = Cold
	if f := factsOf(NewLedger(cold)); !reflect.DeepEqual(f.States, []State{Up, Up, Up, Cold}) {
		t.Errorf("states at the start %v", f.States)
	}
}

// When a replica is expected up is known while it loads, and forgotten at the end, whatever that is.
func TestViewsShowWhenReplicasAreExpected(t *testing.T) {
	for name, end := range map[string]func(l *Ledger){
		"up": func(l *Ledger) { l.Place(1, Up) }, "cold": func(l *Ledger) { l.Place(1, Cold) }, "down": func(l *Ledger) { l.SetUp(1, false) },
	} {
		l := NewLedger(table(t))
		l.Expect(1, time.Second) // it is up
		if f := factsOf(l); len(f.Ready) != 0 {
			t.Errorf("%s: expected at %v, and it is up", name, f.Ready)
		}
		l.Place(1, Loading)
		if _, ok := new(Facts).UpAt(1); ok {
			t.Errorf("%s: expected without a time", name)
		}
		l.Expect(1, 3*time.Second)
		f := factsOf(l)
		if at, ok := f.UpAt(1); !ok || at != 3*time.Second {
			t.Errorf("%s: expected at %v, %v", name, at, ok)
		}
		if _, ok := f.UpAt(0); ok {
			t.Errorf("%s: another is expected", name)
		}
		end(l)
		if f := factsOf(l); len(f.Ready) != 0 {
			t.Errorf("%s: still expected at %v", name, f.Ready)
		}
	}
}

// Versions that replace others, and how busy hosts are, are shown as they were set last. A copy of a ledger
// shows the same, and then goes its own way.
func TestViewsShowVersionsAndHosts(t *testing.T) {
	l := NewLedger(table(t))
	if f := factsOf(l); f.IsNewer(1) || f.BusyShare(1) != 0 {
		t.Errorf("shown before anything is known: %+v", f)
	}
	l.MarkNewer([]int{1, 3})
	l.SetBusy([]float32{0.25, 0.5})
	l.Place(2, Loading)
	l.Expect(2, time.Second)
	f := factsOf(l)
	if f.IsNewer(0) || !f.IsNewer(1) || f.IsNewer(2) || !f.IsNewer(3) || f.BusyShare(0) != 0.25 || f.BusyShare(1) != 0.5 {
		t.Errorf("shown: %+v", f)
	}
	into := NewLedger(table(t))
	into.CopyFrom(l)
	l.MarkNewer(nil)
	l.SetBusy([]float32{0.75, 0})
	l.Place(2, Up)
	if copied := factsOf(into); !reflect.DeepEqual(copied, f) {
		t.Errorf("the copy shows %+v, the original showed %+v", copied, f)
	}
	if g := factsOf(l); g.IsNewer(1) || g.BusyShare(0) != 0.75 || len(g.Ready) != 0 {
		t.Errorf("shown then: %+v", g)
	}
	var a, b View
	into.View(0, &a)
	b.CopyFrom(&a)
	b.States[2], b.Ready[2], b.Newer[1], b.Busy[0] = Up, 0, false, 1
	if !reflect.DeepEqual(a.Facts, f) {
		t.Errorf("a copied view shares what it shows: %+v", a.Facts)
	}
}

// The load is the mean over the hosts that have a replica up, of all of them or of a sample.
func TestTheLoadIsOfHostsThatAreUp(t *testing.T) {
	l := NewLedger(table(t))
	load := func() float64 {
		var v View
		l.View(0, &v)
		return v.Load()
	}
	if got := load(); got != 0 {
		t.Errorf("load %v where none is measured", got)
	}
	l.SetBusy([]float32{0.25, 0.75})
	if got := load(); got != 0.5 {
		t.Errorf("load %v, want the mean of both hosts", got)
	}
	for _, r := range l.Table().ReplicasOn(1) {
		l.SetUp(r, false)
	}
	if got := load(); got != 0.25 {
		t.Errorf("load %v, want that of the host that is up", got)
	}
	for _, r := range l.Table().ReplicasOn(0) {
		l.SetUp(r, false)
	}
	if got := load(); got != 0 {
		t.Errorf("load %v where no host is up", got)
	}
}
