package health_test

import (
	"testing"
	"time"

	"gearshift/router/health"
)

// refuse has the replica refuse one more request than it has, as one does that is full.
func (r *rig) refuse(replica int, sure bool, spare time.Duration) bool {
	r.t.Helper()
	lease, ok := r.ledger.Begin(replica, 0)
	if !ok {
		r.t.Fatal("no place for the request that is to be refused")
	}
	counts := r.Busy(replica, sure, spare, r.now)
	lease.End()
	r.saw(nil)
	return counts
}

// A replica that is full gets no more than it has, and then a little more at a time: that
// finds its room, which nobody else knows. It is not ejected.
func TestAFullReplicaGetsNoMoreForAWhile(t *testing.T) {
	r := newRig(t, 2)
	for range 16 {
		if _, ok := r.ledger.Begin(0, 0); !ok {
			t.Fatal("no place")
		}
	}
	for _, pause := range []time.Duration{100, 200, 400, 800, 1600, 2000, 2000} {
		first, _ := r.ledger.Begin(0, 0)
		r.refuse(0, true, 0)
		r.Busy(0, true, 0, r.now) // one that was under way does not count again
		first.End()
		if n := r.takes(0); n != 0 {
			t.Fatalf("it takes %d more", n)
		}
		if !r.Statuses()[0].Busy || r.Statuses()[1].Busy {
			t.Errorf("standings %+v", r.Statuses())
		}
		r.pass(pause*time.Millisecond - 1)
		if n := r.takes(0); n != 0 {
			t.Fatalf("it takes %d more within %d ms", n, pause)
		}
		r.pass(1)
		if n := r.takes(0); n != 2 { // an eighth
			t.Fatalf("after %d ms it takes %d more, want 2", pause, n)
		}
	}
	r.pass(3 * time.Second)
	if n := r.takes(0); n < 4 || n > 60 {
		t.Errorf("three seconds later it takes %d more", n)
	}
	r.pass(10 * time.Second)
	if n := r.takes(0); n != 100-16 || r.Statuses()[0].Busy {
		t.Errorf("after ten seconds it takes %d more, standing %+v", n, r.Statuses()[0])
	}
	r.want()
}

// One that refuses all, which others use or whose quota is used up, is left alone, each
// time for longer.
func TestAReplicaThatRefusesAllIsLeftAlone(t *testing.T) {
	r := newRig(t, 2)
	for _, pause := range []time.Duration{100, 200, 400, 800, 1600, 2000, 2000} {
		r.refuse(0, true, 0)
		r.pass(pause*time.Millisecond - 1)
		if n := r.takes(0); n != 0 {
			t.Fatalf("it takes %d within %d ms", n, pause)
		}
		r.pass(1)
		if n := r.takes(0); n != 1 {
			t.Fatalf("it takes %d after %d ms, want one to try", n, pause)
		}
	}
	r.succeed(0, 1)
	r.refuse(0, true, 0)
	r.pass(100 * time.Millisecond)
	if n := r.takes(0); n != 1 {
		t.Errorf("after a success it takes %d after the shortest pause", n)
	}
	r.refuse(0, true, 3*time.Second)
	r.pass(3*time.Second - 1)
	if n := r.takes(0); n != 0 {
		t.Errorf("it takes %d sooner than it asked for", n)
	}
	r.pass(1)
	if n := r.takes(0); n != 1 {
		t.Errorf("it takes %d when it asked to be asked", n)
	}
	r.refuse(0, true, time.Hour)
	r.pass(5 * time.Second) // the cooldown
	if n := r.takes(0); n != 1 {
		t.Errorf("it takes %d after the cooldown", n)
	}
	r.want()
}

// Somebody must go on to take requests, and be it to refuse them.
func TestTheLastThatTakesRequestsGoesOnTo(t *testing.T) {
	r := newRig(t, 2)
	r.refuse(0, true, 0)
	for range 5 {
		r.refuse(1, true, 0)
	}
	if r.takes(0) != 0 || r.takes(1) != 100 {
		t.Errorf("they take %d and %d", r.takes(0), r.takes(1))
	}
	r = newRig(t, 2)
	r.ledger.SetDrained(0, true)
	r.refuse(1, true, 0)
	if n := r.takes(1); n != 100 {
		t.Errorf("beside one that is drained it takes %d", n)
	}
}

// What an engine says whose queue is full, others say that cannot answer at all. The first
// is at work.
func TestOneThatDoesNotProgressIsNotBusy(t *testing.T) {
	r := newRig(t, 2)
	if r.refuse(0, false, 0) {
		t.Error("one that never answered is taken for busy")
	}
	r.Sign(0)
	if !r.refuse(0, false, 0) {
		t.Error("one whose answers come is not taken for busy")
	}
	r.pass(11 * time.Second)
	if r.refuse(0, false, 0) {
		t.Error("one that has answered nothing since is taken for busy")
	}
	r.Sign(0)
	r.fail(0, health.Connect, 1)
	r.want("0 ejected connect")
	if n := r.takes(0); n != 0 {
		t.Errorf("ejected, it takes %d", n)
	}
}

// A bound for one that comes back and one for want of room hold together.
func TestABusyReplicaMayComeBack(t *testing.T) {
	r := newRig(t, 2)
	r.fail(0, health.Connect, 1)
	r.pass(5 * time.Second)
	if n := r.takes(0); n != 2 {
		t.Fatalf("on trial it takes %d", n)
	}
	r.refuse(0, true, 0)
	if n := r.takes(0); n != 0 {
		t.Errorf("it takes %d", n)
	}
	r.pass(100 * time.Millisecond)
	if n := r.takes(0); n != 1 {
		t.Errorf("it takes %d", n)
	}
	r.pass(time.Second)
	if n := r.takes(0); n != 2 {
		t.Errorf("it takes %d, more than the trials", n)
	}
}

// Of a host that has vanished nothing comes, no refusal either. What it was given is lost once
// probes have found nobody there so often, and nothing has come from there meanwhile.
func TestWhatAHostHadThatVanishedIsLost(t *testing.T) {
	r := newRig(t, 2)
	lost := func(f health.Finding) (n int) {
		for _, c := range r.Probed(0, f, r.now) {
			if c.Lost {
				n++
			}
		}
		return n
	}
	for i, c := range []struct {
		finding health.Finding
		sign    bool
		lost    int
	}{
		{health.Unconnected, false, 0}, {health.Unconnected, false, 0}, {health.Unconnected, true, 0}, // it was alive after all
		{health.Unconnected, false, 0}, {health.Unconnected, false, 0}, {health.Refused, false, 0}, // it ends, and finishes what it has
		{health.Unconnected, false, 0}, {health.Unconnected, false, 0}, {health.Unconnected, false, 1}, {health.Unconnected, false, 0},
	} {
		if c.sign {
			r.Sign(0)
		}
		if got := lost(c.finding); got != c.lost {
			t.Errorf("probe %d: lost %d, want %d", i, got, c.lost)
		}
	}
}
