package lifecycle_test

import (
	"errors"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
)

// pair has tiny0 and small0 be models of one engine that sleeps as a whole.
func pair(t *testing.T, initial ...fleet.State) *fixture {
	return newFixture(t, lifecycle.Options{Together: [][]int{tiny0: {small0}, small0: {tiny0}, 4: nil}}, initial...)
}

// begin has a request begin on the replica.
func (w *fixture) begin(replica int) (end func()) {
	lease, ok := w.ledger.Begin(replica, 0)
	if !ok {
		w.Fatal("no request begins")
	}
	return func() { lease.End() }
}

// A sleep of one drains all models of its engine, which fall asleep by one action and wake by one.
func TestAnEngineSleepsAsAWhole(t *testing.T) {
	w := pair(t, fleet.Up, fleet.Up, fleet.Cold)
	end := w.begin(small0)
	w.want(tiny0, fleet.Warm, lifecycle.Order{})
	w.wake(time.Second)
	w.acted(0, 0, 0)
	if _, ok := w.ledger.Begin(small0, 0); ok {
		t.Error("the other model takes requests while its engine is about to sleep")
	}
	end()
	w.wake(time.Second)
	w.acted(1, control.Sleep, tiny0)
	w.is(small0, fleet.Draining, "")
	w.c.Observe(control.Event{Kind: control.Changed, Replica: small0, State: fleet.Warm}) // as a poll finds it
	w.answer(control.Slept, nil)
	w.is(tiny0, fleet.Warm, "")
	w.is(small0, fleet.Warm, "")
	w.want(small0, fleet.Up, lifecycle.Order{})
	w.wake(time.Second)
	w.acted(2, control.Wake, small0)
	w.is(tiny0, fleet.Warm, "")
	w.answer(control.Woken, nil)
	w.is(tiny0, fleet.Up, "")
	w.is(small0, fleet.Up, "")
	if w.wake(time.Second); !w.c.Settled() {
		t.Error("something is still to be done")
	}
}

// What keeps one model of an engine awake keeps all of them awake.
func TestAnEngineThatStaysAwake(t *testing.T) {
	w := pair(t, fleet.Up, fleet.Up, fleet.Cold)
	w.begin(small0)
	w.want(tiny0, fleet.Warm, lifecycle.Order{DrainTimeout: time.Second})
	w.wake(0)
	w.wake(time.Second)
	w.acted(0, 0, 0)
	w.is(tiny0, fleet.Up, "tiny@gpu0 was not put to sleep: 1 of its engine's requests have not ended after 1s")
	w.is(small0, fleet.Up, "small@gpu0 was not put to sleep: 1 of its engine's requests have not ended after 1s")

	w = pair(t, fleet.Up, fleet.Up, fleet.Cold)
	w.begin(small0)
	w.want(tiny0, fleet.Warm, lifecycle.Order{})
	w.wake(0)
	w.want(small0, fleet.Up, lifecycle.Order{})
	w.wake(0)
	w.is(tiny0, fleet.Up, "tiny@gpu0 was not put to sleep: small@gpu0 is wanted up, and they are models of one engine")
	w.is(small0, fleet.Up, "")

	w = pair(t, fleet.Up, fleet.Up, fleet.Cold)
	w.want(tiny0, fleet.Warm, lifecycle.Order{})
	w.wake(0)
	w.answer(control.ActionFailed, errors.New("500"))
	w.is(tiny0, fleet.Up, "tiny@gpu0 was not put to sleep: 500")
	w.is(small0, fleet.Up, "tiny@gpu0 was not put to sleep: 500")
	if _, ok := w.ledger.Begin(small0, 0); !ok || !w.c.Settled() {
		t.Error("the other model takes no requests")
	}
}
