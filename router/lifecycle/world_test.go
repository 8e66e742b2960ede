package lifecycle_test

import (
	"fmt"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
)

const gib = 1 << 30

// catalogue is two sizes on each of two hosts that have room for either, not for both, and
// a tiny one that fits beside them.
func catalogue(t testing.TB, initial ...fleet.State) *fleet.Table {
	t.Helper()
	replicas := []fleet.Replica{
		{Name: "tiny@gpu0", Variant: 0}, {Name: "small@gpu0", Variant: 1}, {Name: "large@gpu0", Variant: 2},
		{Name: "small@gpu1", Variant: 1, Host: 1}, {Name: "large@gpu1", Variant: 2, Host: 1},
	}
	replicas[large0].Initial = fleet.Cold // where nothing else is said: it does not fit beside the others
	for i, s := range initial {
		replicas[i].Initial = s
	}
	table, err := fleet.NewTable(
		[]fleet.Task{{Name: "task", Deadline: 1, Weight: 1, Quality: []float64{.5, .8, 1}}},
		[]fleet.Variant{{Name: "tiny", Model: 0}, {Name: "small", Model: 1}, {Name: "large", Model: 2}},
		[]fleet.Host{{Name: "gpu0", Memory: 24 * gib}, {Name: "gpu1", Memory: 24 * gib}}, replicas,
		fleet.Model{Name: "tiny", Memory: gib}, fleet.Model{Name: "small", Memory: 11 * gib}, fleet.Model{Name: "large", Memory: 14 * gib})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// The indexes of the replicas of [catalogue].
const (
	tiny0, small0, large0 = 0, 1, 2
)

// engines is an actuator that notes what it is told, and refuses as one must.
type engines struct {
	acts  []control.Action
	newer map[int]uint64 // the newest epoch, by replica
	err   error          // of the next action
}

func (e *engines) Act(a control.Action) error {
	if err := e.err; err != nil {
		e.err = nil
		return err
	}
	if a.Epoch < e.newer[a.Replica] {
		return fmt.Errorf("epoch %d is older than %d", a.Epoch, e.newer[a.Replica])
	}
	if e.newer == nil {
		e.newer = map[int]uint64{}
	}
	e.newer[a.Replica] = a.Epoch
	e.acts = append(e.acts, a)
	return nil
}

// last is the latest action.
func (e *engines) last() control.Action {
	if len(e.acts) == 0 {
		return control.Action{Replica: -1}
	}
	return e.acts[len(e.acts)-1]
}

// world is one controller with its ledger and engines.
type fixture struct {
	*testing.T
	ledger  *fleet.Ledger
	engines *engines
	c       *lifecycle.Controller
	now     time.Duration
}

func newFixture(t *testing.T, o lifecycle.Options, initial ...fleet.State) *fixture {
	w := &fixture{T: t, ledger: fleet.NewLedger(catalogue(t, initial...)), engines: &engines{}}
	w.c = lifecycle.New(w.ledger, w.engines, o)
	return w
}

func (w *fixture) want(replica int, s fleet.State, o lifecycle.Order) {
	w.Helper()
	if err := w.c.Want(replica, s, o); err != nil {
		w.Fatalf("cannot have replica %d %v: %v", replica, s, err)
	}
}

func (w *fixture) refused(replica int, s fleet.State, want string) {
	w.Helper()
	before := fmt.Sprint(w.c.Status(max(0, min(replica, 4))))
	if err := w.c.Want(replica, s, lifecycle.Order{}); err == nil || err.Error() != want {
		w.Errorf("refused with %v, want %s", err, want)
	}
	if after := fmt.Sprint(w.c.Status(max(0, min(replica, 4)))); after != before {
		w.Errorf("what is refused has changed %s to %s", before, after)
	}
}

// wake has time pass before the controller wakes.
func (w *fixture) wake(by time.Duration) time.Duration {
	w.now += by
	return w.c.Wake(w.now)
}

// acted checks the number of actions so far, and the latest.
func (w *fixture) acted(n int, verb control.Verb, replica int) {
	w.Helper()
	if last := w.engines.last(); len(w.engines.acts) != n || n > 0 && (last.Verb != verb || last.Replica != replica) {
		w.Fatalf("%d actions %v, want %d, the last %v of replica %d", len(w.engines.acts), w.engines.acts, n, verb, replica)
	}
}

// answer ends the latest action.
func (w *fixture) answer(kind control.Kind, err error) {
	a := w.engines.last()
	e := control.Event{At: w.now, Kind: kind, Replica: a.Replica, Action: a}
	if err != nil {
		e.Reason = err.Error()
	}
	w.c.Observe(e)
}

func (w *fixture) is(replica int, s fleet.State, reason string) {
	w.Helper()
	status := w.c.Status(replica)
	if w.ledger.State(replica) != s || status.State != s || (status.Err == nil) != (reason == "") || reason != "" && status.Err.Error() != reason {
		w.Errorf("replica %d is %v (%v), because %v; want %v, because %s", replica, w.ledger.State(replica), status.State, status.Err, s, reason)
	}
}
