package lifecycle_test

import (
	"errors"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
)

// A replica is loaded, put to sleep, woken and unloaded, and its state is true at each
// moment.
func TestThroughItsLife(t *testing.T) {
	w := newFixture(t, lifecycle.Options{}, fleet.Cold, fleet.Cold, fleet.Cold)
	for n, step := range []struct {
		want   fleet.State
		verb   control.Verb
		during fleet.State
		end    control.Kind
	}{
		{fleet.Up, control.Load, fleet.Loading, control.Loaded},
		{fleet.Warm, control.Sleep, fleet.Draining, control.Slept},
		{fleet.Up, control.Wake, fleet.Loading, control.Woken},
		{fleet.Cold, control.Unload, fleet.Draining, control.Unloaded},
	} {
		w.want(small0, step.want, lifecycle.Order{})
		if due := w.wake(time.Second); due != w.now+lifecycle.DefaultActionTimeout {
			t.Errorf("due at %v, want the end of the action's time", due)
		}
		w.acted(n+1, step.verb, small0)
		if e := w.engines.last().Epoch; e != w.ledger.EpochOf(small0) || e != w.ledger.Epoch() {
			t.Errorf("the action is of epoch %d, the placement of %d", e, w.ledger.EpochOf(small0))
		}
		w.is(small0, step.during, "")
		w.answer(step.end, nil)
		w.is(small0, step.want, "")
		if due := w.wake(0); due != control.Never || !w.c.Settled() {
			t.Errorf("due at %v once all is done", due)
		}
	}
}

// What is to sleep from cold on is loaded first, and takes no request in between.
func TestFromColdToWarm(t *testing.T) {
	w := newFixture(t, lifecycle.Options{}, fleet.Cold, fleet.Cold, fleet.Cold)
	w.want(small0, fleet.Warm, lifecycle.Order{})
	w.wake(0)
	w.acted(1, control.Load, small0)
	w.answer(control.Loaded, nil)
	w.is(small0, fleet.Loading, "")
	w.refused(small0, fleet.Up, "small@gpu0 is being loaded already; wait until that has ended")
	w.c.Observe(control.Event{Kind: control.Changed, Replica: small0, State: fleet.Up}) // as a poll finds it
	w.wake(0)
	w.acted(2, control.Sleep, small0)
	w.answer(control.Slept, nil)
	w.is(small0, fleet.Warm, "")

	w.want(tiny0, fleet.Warm, lifecycle.Order{})
	w.wake(0)
	w.answer(control.Loaded, nil)
	w.wake(0)
	w.answer(control.ActionFailed, errors.New("the engine has no /sleep"))
	w.is(tiny0, fleet.Up, "tiny@gpu0 was not put to sleep: the engine has no /sleep")
}

// A busy replica finishes what it has before it is unloaded, and takes nothing new.
func TestDrainsFirst(t *testing.T) {
	w := newFixture(t, lifecycle.Options{Interval: time.Second}, fleet.Up, fleet.Up, fleet.Cold)
	lease, _ := w.ledger.Begin(small0, 0)
	w.want(small0, fleet.Cold, lifecycle.Order{})
	w.is(small0, fleet.Draining, "")
	if due := w.wake(0); due != time.Second {
		t.Errorf("due at %v, want a look in a second", due)
	}
	if _, ok := w.ledger.Begin(small0, 0); ok {
		t.Error("a draining replica takes a request")
	}
	w.wake(10 * time.Second)
	w.acted(0, 0, 0)
	lease.End()
	w.wake(0)
	w.acted(1, control.Unload, small0)
	w.answer(control.Unloaded, nil)
	w.is(small0, fleet.Cold, "")
	if w.ledger.Drained(small0) {
		t.Error("an unloaded replica stays drained")
	}
}

// Requests that do not end keep a replica loaded, unless it is forced.
func TestDrainEnds(t *testing.T) {
	w := newFixture(t, lifecycle.Options{DrainTimeout: time.Minute}, fleet.Up, fleet.Up, fleet.Cold)
	w.ledger.Begin(small0, 0)
	w.want(small0, fleet.Warm, lifecycle.Order{})
	w.wake(0)
	w.wake(time.Minute - 1)
	w.is(small0, fleet.Draining, "")
	w.wake(1)
	w.is(small0, fleet.Up, "small@gpu0 was not put to sleep: 1 of its requests have not ended after 1m0s")
	w.want(small0, fleet.Cold, lifecycle.Order{DrainTimeout: time.Second})
	w.wake(0)
	w.wake(time.Second)
	w.is(small0, fleet.Up, "small@gpu0 was not unloaded: 1 of its requests have not ended after 1s")
	w.want(small0, fleet.Cold, lifecycle.Order{})
	w.want(small0, fleet.Cold, lifecycle.Order{Force: true})
	w.wake(0)
	w.acted(1, control.Unload, small0)
}

// An order that has not led to an action is taken back by another.
func TestUndrain(t *testing.T) {
	w := newFixture(t, lifecycle.Options{})
	w.ledger.Begin(small0, 0)
	w.want(small0, fleet.Cold, lifecycle.Order{})
	w.want(small0, fleet.Up, lifecycle.Order{})
	w.is(small0, fleet.Up, "")
	w.want(small0, fleet.Draining, lifecycle.Order{})
	w.is(small0, fleet.Draining, "")
	if due := w.wake(time.Hour); due != control.Never {
		t.Errorf("due at %v, but a drained replica is for others to undrain", due)
	}
	w.want(small0, fleet.Up, lifecycle.Order{})
	w.is(small0, fleet.Up, "")
	w.acted(0, 0, 0)
}

// An undrain that bypasses the controller loses no request.
func TestUndrainedByHand(t *testing.T) {
	w := newFixture(t, lifecycle.Options{})
	first, _ := w.ledger.Begin(small0, 0)
	w.want(small0, fleet.Cold, lifecycle.Order{})
	w.wake(0)
	w.ledger.SetDrained(small0, false)
	second, ok := w.ledger.Begin(small0, 0)
	if !ok {
		t.Fatal("an undrained replica takes no request")
	}
	first.End()
	w.wake(time.Second)
	w.acted(0, 0, 0)
	second.End()
	w.wake(time.Second)
	w.acted(1, control.Unload, small0)
	w.ledger.SetDrained(small0, false)
	if _, ok := w.ledger.Begin(small0, 0); ok {
		t.Error("a replica takes a request while it is unloaded")
	}
}

// What was drained before by an operator stays so.
func TestOperatorsDrainStays(t *testing.T) {
	w := newFixture(t, lifecycle.Options{})
	w.ledger.SetDrained(small0, true)
	w.want(small0, fleet.Cold, lifecycle.Order{})
	w.wake(0)
	w.answer(control.ActionFailed, errors.New("no"))
	w.is(small0, fleet.Draining, "small@gpu0 was not unloaded: no")
	if got := w.c.Status(small0).Target; got != fleet.Draining {
		t.Errorf("target %v", got)
	}
}
