package health_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/health"
)

// A controller takes out what breaks when it is woken, not before, and brings it back
// when it said it would.
func TestTheMonitorAsAController(t *testing.T) {
	r := newRig(t, 3)
	var log []string
	var c control.Controller = &health.Controller{Monitor: r.Monitor, OnChange: func(x health.Change, now time.Duration) {
		log = append(log, fmt.Sprint(x.Replica, " ", x.To, " ", now.Truncate(time.Second)))
	}}
	if next := c.Wake(0); next != control.Never {
		t.Fatalf("woken next at %v though nothing has happened", next)
	}
	for range 5 {
		c.Observe(control.Event{At: time.Second, Began: time.Second, Kind: control.Broken, Replica: 1})
	}
	if r.takes(1) == 0 || len(log) > 0 {
		t.Fatal("it has acted without being woken")
	}
	next := c.Wake(time.Second)
	if r.takes(1) != 0 || next < 5*time.Second || next > 6*time.Second {
		t.Fatalf("takes %d requests, woken next at %v", r.takes(1), next)
	}
	if early := c.Wake(2 * time.Second); early != next {
		t.Errorf("woken early it asks for %v, want %v", early, next)
	}
	c.Wake(next)
	for range 2 {
		c.Observe(control.Event{At: next, Began: next, Kind: control.Answered, Replica: 1})
	}
	c.Wake(next)
	want := []string{"1 ejected 1s", "1 half_open " + fmt.Sprint(next.Truncate(time.Second)), "1 slow_start " + fmt.Sprint(next.Truncate(time.Second))}
	if !slices.Equal(log, want) {
		t.Errorf("changes %q, want %q", log, want)
	}
}

// Heartbeats that stay away take out all replicas of a host, whatever requests do, and
// one that comes brings them back to trials.
func TestMissedHeartbeatsAreProbesThatFail(t *testing.T) {
	r := newRig(t, 3)
	c := &health.Controller{Monitor: r.Monitor}
	for n := range 3 {
		at := time.Duration(n) * time.Second
		c.Observe(control.Event{At: at, Kind: control.Missed, Replica: -1, Host: 2})
		c.Wake(at)
	}
	if r.takes(2) != 0 || r.takes(0) == 0 {
		t.Fatalf("standings %+v", r.Statuses())
	}
	c.Observe(control.Event{At: 10 * time.Second, Kind: control.Heartbeat, Replica: -1, Host: 2})
	c.Wake(10 * time.Second)
	if s := r.Statuses()[2]; s.State != health.HalfOpen {
		t.Errorf("after a heartbeat it is %v", s.State)
	}
}

// What becomes of requests that were sent before the trials says nothing of how the
// replica is now: neither an end nor a failure of theirs counts.
func TestEventsOfRequestsFromBeforeTheTrials(t *testing.T) {
	r := newRig(t, 3)
	c := &health.Controller{Monitor: r.Monitor}
	for range 5 {
		c.Observe(control.Event{At: time.Second, Began: time.Second, Kind: control.Broken, Replica: 1})
	}
	trials := c.Wake(time.Second)
	c.Wake(trials)
	for _, kind := range []control.Kind{control.Broken, control.Answered, control.Refused, control.Answered} {
		c.Observe(control.Event{At: trials + time.Second, Began: time.Second, Kind: kind, Replica: 1})
		c.Wake(trials + time.Second)
		if s := r.Statuses()[1]; s.State != health.HalfOpen {
			t.Fatalf("after a request from before that was %v it is %v", kind, s.State)
		}
	}
}
