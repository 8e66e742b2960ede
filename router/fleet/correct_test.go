package fleet

import (
	"math"
	"reflect"
	"testing"
)

func TestCapBoundsOwnRequests(t *testing.T) {
	l := NewLedger(table(t))
	l.SetCap(0, 1)
	lease, ok := l.Begin(0, 0)
	if !ok {
		t.Fatal("no first place")
	}
	var v View
	l.View(0, &v)
	if _, ok := l.Begin(0, 0); ok || v.Available(0) || !v.Available(1) {
		t.Error("a second request got beyond the cap")
	}
	lease.End()
	if l.View(0, &v); !v.Available(0) {
		t.Error("not available below the cap")
	}
	l.SetCap(0, 0)
	for range 2 {
		if _, ok := l.Begin(0, 0); !ok {
			t.Error("no place though the cap is lifted")
		}
	}
}

// Requests of others weigh in the choice, but take no places.
func TestCorrectionsShowAndTakeNoPlaces(t *testing.T) {
	tab := table(t)
	l := NewLedger(tab)
	limit := tab.Replicas[0].Limit
	if limit == 0 {
		t.Fatal("the test needs a replica with a limit")
	}
	if _, ok := l.Begin(0, 0); !ok {
		t.Fatal("no place")
	}
	l.HoldEach([]int{0}, alike(10))
	l.Correct(0, limit+5, 30)
	var v View
	l.View(0, &v)
	if v.InFlight[0] != int32(limit+6) || v.Own(0) != 1 || v.Held[0] != 40 || v.InFlight[1] != 0 {
		t.Errorf("in flight %v, own %d, held %v", v.InFlight, v.Own(0), v.Held)
	}
	if l.InFlight() != 1 || v.Available(0) != (limit > 1) {
		t.Errorf("%d in flight, available %v", l.InFlight(), v.Available(0))
	}
	l.HoldEach([]int{0}, alike(20))
	if l.View(0, &v); v.Held[0] != 50 {
		t.Errorf("held %d, want own 20 and 30 of others", v.Held[0])
	}
	l.HoldEach([]int{0}, alike(math.MaxInt64))
	if l.View(0, &v); v.Held[0] != math.MaxInt32 {
		t.Errorf("held %d, want all that can be told", v.Held[0])
	}
}

// Where caps and corrections are lifted, a view is as if there had been none.
func TestLiftedCorrectionsLeaveNoTrace(t *testing.T) {
	used, plain := NewLedger(table(t)), NewLedger(table(t))
	used.SetCap(0, 3)
	used.Correct(1, 4, 5)
	used.SlowDown(2, 1.5)
	into := NewLedger(table(t))
	into.CopyFrom(used)
	var a, b View
	used.View(0, &a)
	into.View(0, &b)
	if !reflect.DeepEqual(a, b) || a.Caps[0] != 3 || a.Elsewhere[1] != 4 || a.Held[1] != 5 || a.Slowdown(2) != 1.5 || a.Slowdown(1) != 1 {
		t.Fatalf("the copy of %+v is %+v", a, b)
	}
	b.CopyFrom(&a)
	b.Caps[0]++
	if b.Excess[2]++; a.Caps[0] != 3 || a.Slowdown(2) != 1.5 {
		t.Error("a copied view shares its caps or its slowdowns")
	}
	used.SetCap(0, 0)
	used.Correct(1, 0, 0)
	used.SlowDown(2, 0.9)
	var now, never View
	used.View(0, &now)
	plain.View(0, &never)
	if !reflect.DeepEqual(now, never) {
		t.Errorf("the view is %+v, want %+v", now, never)
	}
}

func TestZerosOnAPlainLedgerAllocateNothing(t *testing.T) {
	l := NewLedger(table(t))
	if n := testing.AllocsPerRun(10, func() {
		l.SetCap(0, 0)
		l.Correct(0, 0, 0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
