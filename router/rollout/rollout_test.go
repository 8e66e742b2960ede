package rollout_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/rollout"
)

func quick() rollout.Options {
	o := rollout.DefaultOptions()
	o.Warmup, o.RetryAfter, o.StaleAfter = time.Second, 2*time.Second, 30*time.Second
	return o
}

// With room for both versions the new one is loaded in addition, gets requests by shares, and the
// old one is unloaded; one location after another, each of which answers all the time.
func TestOneAfterAnother(t *testing.T) {
	w := newSimulation(t, 1, 3, 100, 40, quick())
	w.roll(0, "2")
	var shares []float64
	w.until(time.Minute, func() bool {
		changing := 0
		for _, p := range w.control.Status(0, w.now).Locations {
			if p.Phase != "" {
				changing++
			}
		}
		if changing > 1 || w.answering(0) != 3 {
			t.Fatalf("%d locations change and %d answer; want at most 1, and 3", changing, w.answering(0))
		}
		return w.settled(0)()
	})
	for _, s := range w.steps {
		if s.Kind == rollout.StepShifted && s.Location == 0 {
			shares = append(shares, s.Share)
		}
	}
	if want := []float64{0.1, 0.5, 1}; !slices.Equal(shares, want) {
		t.Errorf("shares of the first location %v, want %v", shares, want)
	}
	if got := w.versions(0); !slices.Equal(got, []string{"2", "2", "2"}) {
		t.Errorf("versions %v", got)
	}
	if s := w.control.Status(0, w.now); s.Counts.Changes != 3 || s.Counts.Failures != 0 || s.Previous != "1" {
		t.Errorf("%+v", s)
	}
	if n := slices.Index(w.state, fleet.Loading); n >= 0 || w.used(0) != 40 {
		t.Errorf("host 0 has %d in use, want the new version alone", w.used(0))
	}
}

// All locations load before any request goes to the new version, and shift together.
func TestTogether(t *testing.T) {
	o := quick()
	o.Together = true
	w := newSimulation(t, 1, 3, 100, 40, o)
	w.roll(0, "2")
	w.until(time.Minute, w.settled(0))
	var order []string
	for _, s := range w.steps {
		if s.Kind == rollout.StepLoaded || s.Kind == rollout.StepShifted {
			order = append(order, fmt.Sprintf("%s %.1f", s.Kind, s.Share))
		}
	}
	want := []string{"loaded 0.0", "loaded 0.0", "loaded 0.0", "shifted 0.1", "shifted 0.1", "shifted 0.1", "shifted 0.5", "shifted 0.5", "shifted 0.5", "shifted 1.0", "shifted 1.0", "shifted 1.0"}
	if !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

// Without room for both, locations are drained, unloaded and loaded one after another, and all others
// answer meanwhile.
func TestInPlace(t *testing.T) {
	w := newSimulation(t, 1, 3, 60, 40, quick())
	w.roll(0, "2")
	least := 3
	w.until(time.Minute, func() bool { least = min(least, w.answering(0)); return w.settled(0)() })
	if least != 2 || !slices.Equal(w.versions(0), []string{"2", "2", "2"}) {
		t.Errorf("%d locations answered at least, want 2; versions %v", least, w.versions(0))
	}
	// One location alone must not stop answering.
	w = newSimulation(t, 1, 1, 60, 40, quick())
	w.roll(0, "2")
	for range 200 {
		w.tick()
	}
	if s := w.control.Status(0, w.now); w.answering(0) != 1 || !strings.Contains(s.Waits, "no room for both versions, and 1 locations have to answer") {
		t.Errorf("%d answer, waits %q", w.answering(0), s.Waits)
	}
}

// What sleeps does not answer, and is no reason to wait. It is unloaded, so that what it starts with next is new.
func TestASleepingVersionIsDiscarded(t *testing.T) {
	w := newSimulation(t, 1, 3, 60, 40, quick())
	w.state[4] = fleet.Warm // of the third location
	w.roll(0, "2")
	w.until(time.Minute, w.settled(0))
	if s := w.control.Status(0, w.now); w.state[4] != fleet.Cold || s.Counts.Changes != 3 || w.holds[4] != "2" {
		t.Errorf("%v, version %q next, %+v", w.state[4], w.holds[4], s.Counts)
	}
}

// A change begins below the utilisation, and after the bound of staleness whatever it is, or not at
// all where that is only to be reported.
func TestUtilisationAndStaleness(t *testing.T) {
	for _, only := range []bool{false, true} {
		o := quick()
		o.OnlyReport = only
		w := newSimulation(t, 1, 1, 100, 40, o)
		w.busy[0] = 0.83
		w.roll(0, "2")
		for w.now < o.StaleAfter {
			w.tick()
		}
		s := w.control.Status(0, w.now)
		if s.Overdue || slices.Contains(w.kinds(), rollout.StepBegun) || !strings.Contains(s.Waits, "83 %") {
			t.Fatalf("after %v %+v", w.now, s)
		}
		for range 40 {
			w.tick()
		}
		if s := w.control.Status(0, w.now); !s.Overdue || slices.Contains(w.kinds(), rollout.StepBegun) == only || !slices.Contains(w.kinds(), rollout.StepOverdue) {
			t.Errorf("after the bound, only reported %v: %+v, %v", only, s, w.kinds())
		}
		w.busy[0] = 0.5
		w.until(time.Minute, w.settled(0))
	}
}

func TestRealTimeModelsAndFaultyOrders(t *testing.T) {
	w := newSimulation(t, 1, 1, 100, 40, quick())
	c, err := rollout.New([]rollout.Versioned{
		{Name: "live", Version: "1", RealTime: true, Locations: []rollout.Location{{Replicas: [2]int{0, 1}}}},
	}, quick(), w)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{c.Roll(0, "2", 0), c.Rollback(0, 0), c.Pause(0, 0)} {
		if !errors.Is(err, rollout.ErrRealTime) || !strings.Contains(err.Error(), "live") {
			t.Errorf("error %v", err)
		}
	}
	if err := c.Roll(7, "2", 0); !errors.Is(err, rollout.ErrUnknown) {
		t.Errorf("error %v", err)
	}
	for want, err := range map[string]error{
		"has version \"1\" already": w.control.Roll(0, "1", 0), "want the one to roll to": w.control.Roll(0, "", 0),
		"nothing to pause": w.control.Pause(0, 0), "is not paused": w.control.Continue(0, 0), "no earlier one": w.control.Rollback(0, 0),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	w.roll(0, "2")
	for want, to := range map[string]string{"on its way to version \"2\" already": "2", "roll it back": "3"} {
		if err := w.control.Roll(0, to, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestPauseAndContinue(t *testing.T) {
	w := newSimulation(t, 1, 2, 100, 40, quick())
	w.roll(0, "2")
	shifting := func() bool { return w.control.Status(0, w.now).Locations[0].Phase == "shifting" }
	w.until(time.Minute, shifting)
	if err := w.control.Pause(0, w.now); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		w.tick()
	}
	if s := w.control.Status(0, w.now); !s.Paused || !shifting() || s.Locations[0].Share != 0.1 || s.Locations[1].Phase != "" {
		t.Errorf("paused for 10 s: %+v", s)
	}
	if err := w.control.Continue(0, w.now); err != nil {
		t.Fatal(err)
	}
	w.until(time.Minute, w.settled(0))
}

// A version that fails more requests, or is slower, makes the model go back by itself, soon.
func TestGoesBackFromAWorseVersion(t *testing.T) {
	for name, x := range map[string]worse{"failed": {fails: 0.3}, "times as long": {slower: 1}} {
		w := newSimulation(t, 1, 2, 100, 40, quick())
		w.worse["2"] = x
		w.roll(0, "2")
		w.until(time.Minute, w.settled(0))
		s := w.control.Status(0, w.now)
		if s.Wanted != "1" || s.Counts.Backs != 1 || !strings.Contains(s.Reason, name) || !slices.Equal(w.versions(0), []string{"1", "1"}) {
			t.Errorf("%s: %+v, versions %v", name, s, w.versions(0))
		}
		if failed := w.counts[1].Failed + w.counts[3].Failed; name == "failed" && failed > 60 {
			t.Errorf("%d requests failed until it went back", failed)
		}
	}
}

// One that cannot be loaded is tried as often as is set, and changes nothing.
func TestVersionThatCannotBeLoaded(t *testing.T) {
	for _, memory := range []int{100, 60} { // beside, and in the place of
		w := newSimulation(t, 1, 2, memory, 40, quick())
		w.bad["2"] = "its file is damaged"
		w.roll(0, "2")
		w.until(2*time.Minute, w.settled(0))
		s := w.control.Status(0, w.now)
		if s.Wanted != "1" || s.Counts.Failures < 3 || !strings.Contains(s.Reason, "its file is damaged") || w.answering(0) != 2 || !slices.Equal(w.versions(0), []string{"1", "1"}) {
			t.Errorf("memory %d: %+v, versions %v", memory, s, w.versions(0))
		}
	}
}

// By order: while a roll is under way, and after it.
func TestRollback(t *testing.T) {
	w := newSimulation(t, 1, 3, 100, 40, quick())
	w.roll(0, "2")
	w.until(time.Minute, func() bool { return w.control.Status(0, w.now).Counts.Changes == 1 })
	w.busy = []float64{0.9, 0.9, 0.9} // the way back does not wait
	if err := w.control.Rollback(0, w.now); err != nil {
		t.Fatal(err)
	}
	w.next = w.now
	w.until(time.Minute, w.settled(0))
	if got := w.versions(0); !slices.Equal(got, []string{"1", "1", "1"}) {
		t.Errorf("back while it rolls: %v", got)
	}
	w.busy = []float64{0.5, 0.5, 0.5}
	w.roll(0, "3")
	w.until(time.Minute, w.settled(0))
	if err := w.control.Rollback(0, w.now); err != nil {
		t.Fatal(err)
	}
	w.next = w.now
	w.until(time.Minute, w.settled(0))
	if got := w.versions(0); !slices.Equal(got, []string{"1", "1", "1"}) {
		t.Errorf("back after it: %v", got)
	}
}

// A roll that fails goes back and leaves the way further back as it was; rollbacks lead through the versions
// that were everywhere, one after the other, also after a restart.
func TestRollbackAfterAFailedRoll(t *testing.T) {
	w := newSimulation(t, 1, 2, 100, 40, quick())
	rollback := func(want string) {
		t.Helper()
		if err := w.control.Rollback(0, w.now); err != nil {
			t.Fatal(err)
		}
		w.next = w.now
		w.until(time.Minute, w.settled(0))
		if got := w.versions(0); !slices.Equal(got, []string{want, want}) {
			t.Fatalf("versions %v after a rollback, want %s", got, want)
		}
	}
	for _, version := range []string{"2", "3"} {
		w.roll(0, version)
		w.until(time.Minute, w.settled(0))
	}
	w.bad["4"] = "its file is damaged"
	w.roll(0, "4")
	w.until(time.Minute, w.settled(0))
	if got := w.versions(0); !slices.Equal(got, []string{"3", "3"}) {
		t.Fatalf("versions %v after a roll that failed", got)
	}
	rollback("2")
	state := w.control.State(w.now)
	if err := w.control.Resume(state, w.now); err != nil {
		t.Fatal(err)
	}
	rollback("1")
	if err := w.control.Rollback(0, w.now); err == nil || !strings.Contains(err.Error(), `has version "1", and no earlier one`) {
		t.Errorf("a rollback of the first version: %v", err)
	}
}

// States without a history have the one version before.
func TestResumeFromAStateWithoutAHistory(t *testing.T) {
	for name, c := range map[string]struct {
		state rollout.ModelState
		want  string
	}{
		"after a roll":      {rollout.ModelState{Wanted: "2", From: "1", Previous: "1"}, "1"},
		"on the second":     {rollout.ModelState{Wanted: "3", From: "2", Previous: "1", Rolling: true}, "2"},
		"back by order":     {rollout.ModelState{Wanted: "1", From: "2", Previous: "1", Rolling: true, Back: true}, ""},
		"back by a failure": {rollout.ModelState{Wanted: "2", From: "3", Previous: "1", Rolling: true, Back: true}, "1"},
		"never rolled":      {rollout.ModelState{Wanted: "1", From: "1"}, ""},
	} {
		w := newSimulation(t, 1, 1, 100, 40, quick())
		c.state.Name, c.state.Locations = "a", []rollout.LocationState{{Versions: [2]string{c.state.Wanted, ""}}}
		if err := w.control.Resume(rollout.State{Models: []rollout.ModelState{c.state}}, 0); err != nil {
			t.Fatal(err)
		}
		if got := w.control.Status(0, 0).Previous; got != c.want {
			t.Errorf("%s: a rollback leads to %q, want %q", name, got, c.want)
		}
	}
}

// A controller that comes after another one knows which replicas answer, and finishes its roll.
func TestResume(t *testing.T) {
	for stop := range 240 {
		memory := 100 - 40*(stop%2) // in addition, and in the place of
		w := newSimulation(t, 1, 2, memory, 40, quick())
		w.roll(0, "2")
		for range stop / 2 {
			w.tick()
		}
		state := w.control.State(w.now)
		models := []rollout.Versioned{{Name: "a", Version: "1", Locations: []rollout.Location{{Host: 0, Replicas: [2]int{0, 1}}, {Host: 1, Replicas: [2]int{2, 3}}}}}
		next, err := rollout.New(models, quick(), w)
		if err != nil {
			t.Fatal(err)
		}
		if err := next.Resume(state, w.now); err != nil {
			t.Fatal(err)
		}
		w.control, w.next = next, w.now
		if stop%2 == 0 && w.answering(0) != 2 {
			t.Fatalf("after %d steps %d locations answer", stop, w.answering(0))
		}
		w.until(time.Minute, func() bool { return w.settled(0)() && len(w.actions) == 0 })
		if got := w.versions(0); !slices.Equal(got, []string{"2", "2"}) || w.used(0) != 40 || w.used(1) != 40 {
			t.Fatalf("after %d steps: versions %v, memory %d and %d", stop, got, w.used(0), w.used(1))
		}
	}
}

// What was saved before a crash may be older than what engines have: the replica that answers is found.
func TestResumeFromOlderState(t *testing.T) {
	w := newSimulation(t, 1, 1, 100, 40, quick())
	w.roll(0, "2")
	w.until(time.Minute, func() bool { return w.control.Status(0, w.now).Locations[0].Phase == "shifting" })
	state := w.control.State(w.now) // the first replica is the active one
	w.until(time.Minute, w.settled(0))
	models := []rollout.Versioned{{Name: "a", Version: "1", Locations: []rollout.Location{{Replicas: [2]int{0, 1}}}}}
	next, err := rollout.New(models, quick(), w)
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Resume(state, w.now); err != nil {
		t.Fatal(err)
	}
	w.control, w.next = next, w.now
	w.until(time.Minute, w.settled(0))
	if got := w.versions(0); !slices.Equal(got, []string{"2"}) || w.answering(0) != 1 || w.used(0) != 40 {
		t.Errorf("versions %v, %d answer, memory %d", got, w.answering(0), w.used(0))
	}
}

// An engine that starts again with an older version answers at first, and gets the wanted one.
func TestEngineThatComesBackWithAnOlderVersion(t *testing.T) {
	w := newSimulation(t, 1, 2, 100, 40, quick())
	w.roll(0, "2")
	w.until(time.Minute, w.settled(0))
	w.state[0], w.has[0], w.state[1], w.has[1] = fleet.Up, "1", fleet.Cold, "" // the first host's
	w.next = w.now
	w.tick()
	if s := w.control.Status(0, w.now); !s.Rolling || s.Wanted != "2" || w.answering(0) != 2 || !strings.Contains(s.Reason, `come back with version "1"`) {
		t.Errorf("%+v, %d answer", s, w.answering(0))
	}
	w.until(time.Minute, w.settled(0))
	if got := w.versions(0); !slices.Equal(got, []string{"2", "2"}) || w.used(0) != 40 {
		t.Errorf("versions %v, memory %d", got, w.used(0))
	}
}

func TestFaultyModels(t *testing.T) {
	for want, models := range map[string][]rollout.Versioned{
		"has no location": {{Name: "a"}},
		"is of":           {{Name: "a", Locations: []rollout.Location{{Replicas: [2]int{0, 0}}}}},
		"needs 2":         {{Name: "a", Keep: 2, Locations: []rollout.Location{{Replicas: [2]int{0, 1}}}}},
	} {
		if _, err := rollout.New(models, quick(), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	o := quick()
	o.AtOnce, o.Utilisation, o.Shares = 0, 2, []float64{0.5, 0.1}
	if _, err := rollout.New(nil, o, nil); err == nil || !strings.Contains(err.Error(), "0 changes at once") || !strings.Contains(err.Error(), "that grow") {
		t.Errorf("error %v", err)
	}
}

var _ control.Controller = (*rollout.Controller)(nil)
