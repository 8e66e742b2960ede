package health_test

import (
	"testing"
	"time"

	"gearshift/router/health"
)

// A replica whose host is lost is out at once, whatever probes find, though it is the only one, and
// its requests are reported as lost. It is up again, with its full share, as soon as its host is
// back.
func TestHostsThatLeaveAndReturn(t *testing.T) {
	r := newRig(t, 1)
	changes := r.Leave(0, r.now)
	if len(changes) != 2 || !changes[0].Ejects() || changes[0].Why != health.Gone || !changes[1].Lost {
		t.Errorf("changes %+v, want that it is ejected, and then that its requests are lost", changes)
	}
	if again := r.Leave(0, r.now); len(again) > 0 {
		t.Errorf("changes %+v of a replica that has left", again)
	}
	for range 10 {
		r.now += time.Minute
		r.saw(r.Probed(0, health.Well, r.now))
	}
	if s := r.Statuses()[0]; s.State != health.Ejected || s.Why != health.Gone {
		t.Errorf("status %+v while its host is lost, want that it is out", s)
	}
	changes = r.Return(0, r.now)
	if s := r.Statuses()[0]; s.State != health.Up || s.Cap != 0 || len(changes) != 1 {
		t.Errorf("status %+v after %+v, want that it is up at once", s, changes)
	}
	// What was sent before says nothing of it now.
	if r.saw(r.Failed(0, health.Broken, r.now-time.Second, r.now)); r.Statuses()[0].State != health.Up {
		t.Error("a request from before its return counts")
	}
}

// Trials end at once when the host has said that it is well. A replica whose server lacks its model
// stays out.
func TestReturnsEndTrials(t *testing.T) {
	r := newRig(t, 2)
	r.saw(r.Failed(0, health.Connect, r.now, r.now))
	r.now += time.Minute
	r.saw(r.Probed(0, health.Well, r.now))
	r.saw(r.Listed(1, "it has other models", r.now))
	if s := r.Statuses()[0]; s.State != health.HalfOpen {
		t.Fatalf("status %+v, want that it is on trial", s)
	}
	r.saw(r.Return(0, r.now))
	r.saw(r.Return(1, r.now))
	if s := r.Statuses(); s[0].State != health.Up || s[0].Cap != 0 || s[1].State != health.Ejected {
		t.Errorf("statuses %+v, want the first one up, and the second one out for its model", s)
	}
}
