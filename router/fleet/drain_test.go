package fleet_test

import (
	"testing"

	"gearshift/router/fleet"
)

// A replica takes requests if it is neither down nor drained, in whatever order
// the two come and go. What is in flight on it goes on.
func TestDrainedApartFromDown(t *testing.T) {
	table, err := fleet.NewTable(
		[]fleet.Task{{Name: "task", Deadline: 1, Weight: 1, Quality: []float64{1}}},
		[]fleet.Variant{{Name: "only"}}, []fleet.Host{{Name: "host"}}, []fleet.Replica{{Name: "a"}, {Name: "b"}})
	if err != nil {
		t.Fatal(err)
	}
	l := fleet.NewLedger(table)
	before, ok := l.Begin(0, 0)
	if !ok {
		t.Fatal("no place")
	}
	var v fleet.View
	for i, step := range []struct {
		do        func()
		available bool
	}{
		{func() { l.SetDrained(0, true) }, false},
		{func() { l.SetUp(0, true) }, false}, // as a probe that finds it well
		{func() { l.SetUp(0, false) }, false},
		{func() { l.SetDrained(0, false) }, false}, // still sick
		{func() { l.SetUp(0, true) }, true},
		{func() { l.SetUp(0, false) }, false},
		{func() { l.SetDrained(0, true) }, false},
		{func() { l.SetUp(0, true) }, false},
		{func() { l.SetDrained(0, false) }, true},
	} {
		l.View(0, &v)
		step.do()
		if _, ok := l.BeginOn(&v, 1, 0); ok {
			t.Errorf("step %d: a choice made before it still begins", i)
		}
		l.View(0, &v)
		lease, ok := l.Begin(0, 0)
		lease.End()
		if ok != step.available || v.Available(0) != step.available || !v.Available(1) {
			t.Errorf("step %d: begins %v, available %v, want %v", i, ok, v.Available(0), step.available)
		}
	}
	if l.SetDrained(0, true); !l.Drained(0) || l.Drained(1) || l.InFlight() != 1 || !before.End() {
		t.Error("the request in flight did not go on")
	}
}
