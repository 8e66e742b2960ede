package lifecycle_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
)

// However an action fails, the replica is as it was, the reason is kept, and the next
// order begins afresh.
func TestActionsThatFail(t *testing.T) {
	for name, fail := range map[string]func(w *fixture) string{
		"the engine says so": func(w *fixture) string {
			w.wake(0)
			w.answer(control.ActionFailed, errors.New("out of memory"))
			return "out of memory"
		},
		"the engine gives no reason": func(w *fixture) string {
			w.wake(0)
			w.answer(control.ActionFailed, nil)
			return "the engine gave no reason"
		},
		"the actuator refuses": func(w *fixture) string {
			w.engines.err = errors.New("nothing drives it")
			w.wake(0)
			return "nothing drives it"
		},
		"no word of it": func(w *fixture) string {
			w.wake(0)
			w.wake(time.Minute)
			return "no word of it for 1m0s"
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, x := range []struct {
				from, to fleet.State
				words    string
			}{
				{fleet.Cold, fleet.Up, "loaded"}, {fleet.Warm, fleet.Up, "woken"},
				{fleet.Up, fleet.Warm, "put to sleep"}, {fleet.Up, fleet.Cold, "unloaded"}, {fleet.Warm, fleet.Cold, "unloaded"},
			} {
				w := newFixture(t, lifecycle.Options{ActionTimeout: time.Minute}, x.from, fleet.Cold, fleet.Cold)
				w.want(tiny0, x.to, lifecycle.Order{})
				why := fail(w)
				w.is(tiny0, x.from, "tiny@gpu0 was not "+x.words+": "+why)
				if due := w.wake(time.Hour); due != control.Never {
					t.Errorf("due at %v, but nobody wants it tried again", due)
				}
				w.want(tiny0, x.to, lifecycle.Order{})
				before := len(w.engines.acts)
				w.wake(0)
				if len(w.engines.acts) != before+1 {
					t.Error("a second try does not begin")
				}
			}
		})
	}
}

// An engine that dies while it loads is down, and cold once it is back.
func TestEngineDiesWhileItLoads(t *testing.T) {
	w := newFixture(t, lifecycle.Options{}, fleet.Cold)
	w.want(tiny0, fleet.Up, lifecycle.Order{})
	w.wake(0)
	w.ledger.SetUp(tiny0, false) // as the health monitor finds it
	w.is(tiny0, fleet.Down, "")
	w.answer(control.ActionFailed, errors.New("the engine is gone"))
	w.is(tiny0, fleet.Down, "tiny@gpu0 was not loaded: the engine is gone")
	w.ledger.SetUp(tiny0, true)
	w.is(tiny0, fleet.Cold, "tiny@gpu0 was not loaded: the engine is gone")
}

// A change of an engine from outside is noticed, and becomes the wanted state.
func TestAnotherHand(t *testing.T) {
	w := newFixture(t, lifecycle.Options{}, fleet.Up, fleet.Cold, fleet.Cold)
	w.c.Observe(control.Event{Kind: control.Changed, Replica: tiny0, State: fleet.Warm})
	w.is(tiny0, fleet.Warm, "")
	w.c.Observe(control.Event{Kind: control.Unloaded, Replica: tiny0})
	w.is(tiny0, fleet.Cold, "")
	w.c.Observe(control.Event{Kind: control.Changed, Replica: small0, State: fleet.Loading})
	w.is(small0, fleet.Loading, "")
	w.c.Observe(control.Event{Kind: control.Changed, Replica: small0, State: fleet.Up})
	w.is(small0, fleet.Up, "")
	if got := w.c.Status(small0).Target; got != fleet.Up || len(w.engines.acts) != 0 {
		t.Errorf("wanted %v after %d actions", got, len(w.engines.acts))
	}
	w.ledger.Begin(small0, 0)
	w.want(small0, fleet.Warm, lifecycle.Order{})
	w.wake(0)
	w.c.Observe(control.Event{Kind: control.Changed, Replica: small0, State: fleet.Cold})
	w.is(small0, fleet.Cold, "small@gpu0 was brought into the state cold from outside")
	if w.ledger.Drained(small0) || w.wake(time.Hour) != control.Never {
		t.Error("the order goes on")
	}
	w.c.Observe(control.Event{Kind: control.Changed, Replica: -1, State: fleet.Cold}) // of a host
	w.c.Observe(control.Event{Kind: control.Changed, Replica: 99, State: fleet.Cold})
}

// Events of actions that are over change nothing.
func TestStaleEventsAreIgnored(t *testing.T) {
	w := newFixture(t, lifecycle.Options{}, fleet.Cold)
	w.want(tiny0, fleet.Up, lifecycle.Order{})
	w.wake(0)
	old := w.engines.last()
	w.answer(control.ActionFailed, errors.New("no"))
	stale := func() {
		t.Helper()
		before := w.ledger.State(tiny0)
		for _, kind := range []control.Kind{control.Loaded, control.Unloaded, control.Slept, control.Woken, control.ActionFailed} {
			w.c.Observe(control.Event{Kind: kind, Replica: tiny0, Action: old})
			if got := w.ledger.State(tiny0); got != before {
				t.Fatalf("a stale event of kind %v has the replica %v", kind, got)
			}
		}
	}
	stale()
	w.want(tiny0, fleet.Up, lifecycle.Order{})
	w.wake(0)
	stale()
	w.answer(control.Loaded, nil)
	w.is(tiny0, fleet.Up, "")
	stale()
}

// An engine of which there is no word may load on: its memory is taken until it is known
// what has become of the load, which counts late as well.
func TestLateAnswers(t *testing.T) {
	for _, kind := range []control.Kind{control.Loaded, control.ActionFailed} {
		w := newFixture(t, lifecycle.Options{ActionTimeout: time.Minute}, fleet.Up, fleet.Cold, fleet.Cold)
		w.want(small0, fleet.Up, lifecycle.Order{})
		w.wake(0)
		w.wake(time.Minute)
		w.is(small0, fleet.Cold, "small@gpu0 was not loaded: no word of it for 1m0s")
		w.refused(large0, fleet.Up, "host gpu0 has 24 GiB, 12 GiB of them free; large takes 14 GiB: 2 GiB are missing")
		w.answer(kind, errors.New("out of memory"))
		if kind == control.Loaded {
			w.is(small0, fleet.Up, "")
			continue
		}
		w.is(small0, fleet.Cold, "small@gpu0 was not loaded: no word of it for 1m0s")
		w.want(large0, fleet.Up, lifecycle.Order{})
	}
}

// atOnce is an actuator that is done with an action when it begins it.
type atOnce struct{ c *lifecycle.Controller }

func (a *atOnce) Act(x control.Action) error {
	kinds := map[control.Verb]control.Kind{control.Load: control.Loaded, control.Unload: control.Unloaded, control.Sleep: control.Slept, control.Wake: control.Woken}
	a.c.Observe(control.Event{Kind: kinds[x.Verb], Replica: x.Replica, Action: x})
	return nil
}

// What the actuator does at once is followed at once, to the end.
func TestActionsAtOnce(t *testing.T) {
	l, a := fleet.NewLedger(catalogue(t)), &atOnce{}
	a.c = lifecycle.New(l, a, lifecycle.Options{})
	for _, s := range []fleet.State{fleet.Cold, fleet.Warm, fleet.Up, fleet.Warm, fleet.Cold, fleet.Up} {
		if err := a.c.Want(tiny0, s, lifecycle.Order{}); err != nil {
			t.Fatal(err)
		}
		if due := a.c.Wake(0); due != control.Never || l.State(tiny0) != s {
			t.Errorf("the replica is %v, due at %v; want %v", l.State(tiny0), due, s)
		}
	}
}

// Of two controllers one acts on a replica, and the other leaves it alone and says so.
func TestTwoControllers(t *testing.T) {
	w := newFixture(t, lifecycle.Options{}, fleet.Up)
	other := lifecycle.New(w.ledger, w.engines, lifecycle.Options{})
	w.want(tiny0, fleet.Cold, lifecycle.Order{})
	if err := other.Want(tiny0, fleet.Warm, lifecycle.Order{}); err != nil {
		t.Fatal(err)
	}
	w.wake(0)
	other.Wake(0)
	w.acted(1, control.Unload, tiny0)
	if err := other.Status(tiny0).Err; err == nil || err.Error() != "another controller has brought tiny@gpu0 into the state draining" {
		t.Errorf("the other says %v", err)
	}
	if err := other.Want(tiny0, fleet.Up, lifecycle.Order{}); err == nil || !strings.Contains(err.Error(), "begun from outside") {
		t.Errorf("the other may act on a replica that is being unloaded: %v", err)
	}
	for _, c := range []*lifecycle.Controller{other, w.c} { // both hear of it
		a := w.engines.last()
		c.Observe(control.Event{Kind: control.Unloaded, Replica: tiny0, Action: a})
	}
	w.is(tiny0, fleet.Cold, "")
	if err := other.Want(tiny0, fleet.Up, lifecycle.Order{}); err != nil {
		t.Error(err)
	}
	other.Wake(0)
	w.acted(2, control.Load, tiny0)
	late := w.engines.acts[0]
	if err := w.engines.Act(late); err == nil {
		t.Error("an engine takes an action of an epoch that is over")
	}
}
