package fleet

import (
	"reflect"
	"testing"
	"time"
)

// A copied ledger shows the same view, and from then on goes its own way: a
// lease taken over ends on the copy alone, and once there as well.
func TestLedgerCopy(t *testing.T) {
	table := table(t)
	l, into := NewLedger(table), NewLedger(table)
	if _, ok := into.Begin(0, 0); !ok { // the destination has a past
		t.Fatal("no place")
	}
	for i := range 4 {
		l.Arrive(time.Duration(i*i) * time.Second)
	}
	l.SetUp(1, false)
	l.HoldEach([]int{0}, alike(70))
	lease, ok := l.Begin(0, 0)
	if !ok {
		t.Fatal("no place")
	}
	into.CopyFrom(l)
	var a, b View
	l.View(time.Minute, &a)
	into.View(time.Minute, &b)
	if !reflect.DeepEqual(a, b) || a.InFlight[0] != 1 || !a.Down[1] || a.Rate == 0 {
		t.Fatalf("the copy of %+v is %+v", a, b)
	}
	if !lease.On(into).End() || lease.On(into).End() {
		t.Error("a lease ends on the copy not once")
	}
	if l.InFlight() != 1 || into.InFlight() != 0 {
		t.Errorf("%d in flight in the original, %d in the copy; want 1 and 0", l.InFlight(), into.InFlight())
	}
	if !lease.End() {
		t.Error("the original's lease ended with the copy's")
	}
	into.SetUp(1, true) // what is down comes up again on the copy alone, also a new one
	fresh := new(Ledger)
	fresh.CopyFrom(l)
	fresh.SetUp(1, true)
	for copied, down := range map[*Ledger]bool{l: true, into: false, fresh: false} {
		if copied.View(0, &b); b.Down[1] != down {
			t.Errorf("down %v, want %v", b.Down[1], down)
		}
	}
	b.CopyFrom(&a)
	b.InFlight[0]++
	if a.InFlight[0] != 1 {
		t.Error("a copied view shares its counts")
	}
}
