package lifecycle_test

import (
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
)

// Views show when a replica that is being loaded or woken will be up, where its model says how long that takes, and
// otherwise that one that is being woken will be up at once; nothing else, and not for longer than it goes on.
func TestViewsShowWhenAReplicaWillBeUp(t *testing.T) {
	w := newFixture(t, lifecycle.Options{}, fleet.Cold, fleet.Cold, fleet.Cold)
	w.ledger.Table().Models[1].Load = 3 * time.Second // small's
	expected := func(replica int) time.Duration {
		var v fleet.View
		w.ledger.View(w.now, &v)
		at, _ := v.UpAt(replica)
		return at
	}
	begin := func(replica int, to fleet.State) {
		t.Helper()
		w.want(replica, to, lifecycle.Order{})
		w.wake(time.Second)
	}
	for _, end := range []control.Kind{control.ActionFailed, control.Loaded} {
		begin(small0, fleet.Up)
		if at := expected(small0); at != w.now+3*time.Second {
			t.Errorf("expected at %v, want %v", at, w.now+3*time.Second)
		}
		if w.answer(end, nil); expected(small0) != 0 {
			t.Errorf("%v, and still expected at %v", end, expected(small0))
		}
	}
	begin(tiny0, fleet.Up)
	if at := expected(tiny0); at != 0 || w.ledger.State(tiny0) != fleet.Loading {
		t.Errorf("expected at %v, and how long its load takes is not known", at)
	}
	w.answer(control.Loaded, nil)
	begin(tiny0, fleet.Warm)
	w.answer(control.Slept, nil)
	begin(tiny0, fleet.Up)
	if at := expected(tiny0); at != w.now {
		t.Errorf("woken, and expected at %v, want %v", at, w.now)
	}
	w.answer(control.Woken, nil)
	begin(small0, fleet.Warm)
	w.answer(control.Slept, nil)
	begin(small0, fleet.Up)
	if at := expected(small0); at != w.now+150*time.Millisecond { // a twentieth of its load
		t.Errorf("woken, and expected at %v, want %v", at, w.now+150*time.Millisecond)
	}
}
