package lifecycle_test

import (
	"errors"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
)

// driven lists the engines that load and wake. It implements [lifecycle.Engines].
type driven struct{ not map[int]bool }

func (d driven) Driven(replica int) bool           { return !d.not[replica] }
func (driven) Ordered(_ control.Action, err error) {}

// waker runs a waker and the lifecycles in turn.
func waker(w *fixture, d driven) (pass func(by time.Duration) time.Duration) {
	k := lifecycle.NewWaker(w.ledger, d)
	k.Claim(w.c.Claim)
	return func(by time.Duration) time.Duration {
		w.now += by
		next := min(w.c.Wake(w.now), k.Wake(w.now))
		w.c.Wake(w.now)
		return next
	}
}

// A replica that sleeps is woken once requests are held for its variant, and one alone; what fails is tried again a
// second later.
func TestHeldRequestsWakeAReplica(t *testing.T) {
	w := newFixture(t, lifecycle.Options{}, fleet.Up, fleet.Cold, fleet.Warm, fleet.Up, fleet.Cold)
	pass := waker(w, driven{})
	pass(0)
	w.acted(0, 0, -1)
	w.ledger.Await(2, 3)
	pass(0)
	w.acted(1, control.Wake, large0)
	pass(time.Millisecond)
	w.acted(1, control.Wake, large0)
	w.answer(control.ActionFailed, errors.New("no memory"))
	if next := pass(0); next > w.now+time.Second {
		t.Errorf("a wake that failed is tried again at %v, %v from now", next, next-w.now)
	}
	pass(500 * time.Millisecond)
	w.acted(1, control.Wake, large0)
	pass(500 * time.Millisecond)
	w.acted(2, control.Wake, large0)
	w.answer(control.Woken, nil)
	w.is(large0, fleet.Up, "")
	pass(time.Minute)
	w.acted(2, control.Wake, large0)
}

// Of two replicas on a host that do not fit side by side, such as engines at two shares of its memory, one is put to
// sleep and the other woken by one proposal, in that order.
func TestReplicasSwapMemory(t *testing.T) {
	w := newFixture(t, lifecycle.Options{}, fleet.Up, fleet.Up, fleet.Warm, fleet.Up, fleet.Cold)
	claims := w.c.Claim(lifecycle.Learned, func(control.Event) {})
	if claims.Fits(large0) {
		t.Error("it fits next to the other")
	}
	if _, err := claims.Propose(lifecycle.Want{Replica: large0, State: fleet.Up}, lifecycle.Want{Replica: small0, State: fleet.Warm}); err != nil {
		t.Fatal(err)
	}
	w.wake(0)
	w.acted(1, control.Sleep, small0)
	w.wake(time.Second)
	w.acted(1, control.Sleep, small0)
	w.answer(control.Slept, nil)
	w.wake(0)
	w.acted(2, control.Wake, large0)
	w.answer(control.Woken, nil)
	w.is(large0, fleet.Up, "")
	w.is(small0, fleet.Warm, "")
}

// Only memory that is free is taken, and only engines that something drives are asked.
func TestHeldRequestsTakeNoMemoryFromOthers(t *testing.T) {
	w := newFixture(t, lifecycle.Options{}, fleet.Up, fleet.Up, fleet.Warm, fleet.Up, fleet.Cold)
	pass := waker(w, driven{})
	w.ledger.Await(2, 1)
	if next := pass(0); next != w.now+time.Second {
		t.Errorf("without memory it is tried again at %v", next)
	}
	w.acted(0, 0, -1)
	w.want(small0, fleet.Cold, lifecycle.Order{})
	pass(0)
	w.answer(control.Unloaded, nil)
	pass(0)
	w.acted(2, control.Wake, large0)

	w = newFixture(t, lifecycle.Options{}, fleet.Up, fleet.Cold, fleet.Warm, fleet.Cold, fleet.Cold)
	pass = waker(w, driven{map[int]bool{large0: true}})
	w.ledger.Await(2, 1)
	pass(0)
	w.acted(1, control.Load, 4) // large@gpu1
}
