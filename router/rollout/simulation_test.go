package rollout_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/rollout"
)

// simulation has hosts with memory and replicas that take their time. A step is 50 ms.
type simulation struct {
	t       testing.TB
	now     time.Duration
	control *rollout.Controller
	memory  []int // by host
	on      []int // by replica, its host
	size    []int
	busy    []float64
	state   []fleet.State
	holds   []string // version of the next load
	has     []string // version that is loaded
	part    []float64
	flying  []int
	counts  []rollout.Count
	actions []action
	bad     map[string]string // by version, why it cannot be loaded
	takes   time.Duration     // a load
	fails   float64           // the part of actions that fail
	random  *rand.Rand
	steps   []rollout.Step
	next    time.Duration
	// worse has what a version does to its requests.
	worse map[string]worse
}

type worse struct{ fails, slower float64 }

type action struct {
	control.Action
	ends time.Duration
}

const step = 50 * time.Millisecond

func (w *simulation) Act(a control.Action) error {
	switch s := w.state[a.Replica]; {
	case a.Verb == control.Load && s == fleet.Cold:
		if !w.Fits(a.Replica) {
			return errors.New("no memory")
		}
		w.state[a.Replica] = fleet.Loading
	case a.Verb == control.Unload && (s == fleet.Up || s == fleet.Warm):
		w.state[a.Replica] = fleet.Draining
	default:
		return fmt.Errorf("cannot %v what is %v", a.Verb, s)
	}
	takes := w.takes
	if a.Verb == control.Unload {
		takes = 2 * step
	}
	w.actions = append(w.actions, action{a, w.now + takes})
	return nil
}

func (w *simulation) State(r int) fleet.State { return w.state[r] }
func (w *simulation) Lost(host int) bool {
	for r, on := range w.on {
		if on == host && w.state[r] != fleet.Down {
			return false
		}
	}
	return true
}
func (w *simulation) InFlight(r int) int     { return w.flying[r] }
func (w *simulation) Busy(host int) float64  { return w.busy[host] }
func (w *simulation) Hold(r int, v string)   { w.holds[r] = v }
func (w *simulation) Weigh(r int, p float64) { w.part[r] = p }
func (w *simulation) Count(r int) rollout.Count {
	return w.counts[r]
}

func (w *simulation) used(host int) (n int) {
	for r, s := range w.state {
		if w.on[r] == host && s != fleet.Cold && s != fleet.Down {
			n += w.size[r]
		}
	}
	return n
}

func (w *simulation) Fits(r int) bool { return w.used(w.on[r])+w.size[r] <= w.memory[w.on[r]] }

// tick lets a step of time pass: actions end, requests come and go, and the controller is woken.
func (w *simulation) tick() {
	w.now += step
	var kept []action
	for _, a := range w.actions {
		if a.ends > w.now {
			kept = append(kept, a)
			continue
		}
		w.end(a.Action)
	}
	w.actions = kept
	for r := range w.state {
		w.serve(r)
	}
	if w.now >= w.next {
		w.next = w.control.Wake(w.now)
	}
}

func (w *simulation) end(a control.Action) {
	e := control.Event{At: w.now, Kind: a.Verb.Done(), Replica: a.Replica, Action: a}
	reason := w.bad[w.holds[a.Replica]]
	if reason == "" && w.random.Float64() < w.fails {
		reason = "by chance"
	}
	s := &w.state[a.Replica]
	switch {
	case *s == fleet.Down: // its host has died
		e.Kind, e.Reason = control.ActionFailed, "nothing answers"
	case a.Verb == control.Load && reason != "":
		*s, e.Kind, e.Reason = fleet.Cold, control.ActionFailed, reason
	case a.Verb == control.Unload && w.random.Float64() < w.fails:
		*s, e.Kind, e.Reason = fleet.Up, control.ActionFailed, "its requests have not ended"
	case a.Verb == control.Load:
		*s, w.has[a.Replica] = fleet.Up, w.holds[a.Replica]
	default:
		*s, w.has[a.Replica] = fleet.Cold, ""
	}
	w.control.Observe(e)
	w.next = w.now
}

// serve has a replica end and begin requests: ten per step at full weight.
func (w *simulation) serve(r int) {
	if w.state[r] != fleet.Up && w.state[r] != fleet.Draining {
		w.flying[r] = 0
		return
	}
	x := w.worse[w.has[r]]
	for range w.flying[r] {
		w.counts[r].Add(w.random.Float64() < x.fails, 0.1*(1+x.slower)*(0.5+w.random.Float64()))
	}
	w.flying[r] = 0
	if w.state[r] == fleet.Up {
		w.flying[r] = int(w.part[r]*10 + w.random.Float64())
		if w.part[r] == 0 {
			w.flying[r] = 0
		}
	}
}

// newSimulation has models at locations on hosts, each host with the memory; a replica takes size. Second
// says whether locations have a second replica.
func newSimulation(t testing.TB, models, hosts, memory, size int, o rollout.Options) *simulation {
	t.Helper()
	w := &simulation{t: t, takes: time.Second, random: rand.New(rand.NewPCG(1, 2)), bad: map[string]string{}, worse: map[string]worse{}}
	var versioned []rollout.Versioned
	for h := range hosts {
		w.memory, w.busy = append(w.memory, memory), append(w.busy, 0.5)
		_ = h
	}
	for m := range models {
		x := rollout.Versioned{Name: string(rune('a' + m)), Version: "1"}
		for h := range hosts {
			x.Locations = append(x.Locations, rollout.Location{Host: h, Replicas: [2]int{w.replica(h, size, fleet.Up), w.replica(h, size, fleet.Cold)}})
		}
		versioned = append(versioned, x)
	}
	o.Report = func(x rollout.Step) { w.steps = append(w.steps, x) }
	c, err := rollout.New(versioned, o, w)
	if err != nil {
		t.Fatal(err)
	}
	w.control = c
	return w
}

func (w *simulation) replica(host, size int, s fleet.State) int {
	w.on, w.size, w.state = append(w.on, host), append(w.size, size), append(w.state, s)
	version, part := "", 0.0
	if s == fleet.Up {
		version, part = "1", 1
	}
	w.holds, w.has, w.part = append(w.holds, version), append(w.has, version), append(w.part, part)
	w.flying, w.counts = append(w.flying, 0), append(w.counts, rollout.Count{})
	return len(w.on) - 1
}

// roll orders a version.
func (w *simulation) roll(model int, to string) {
	w.t.Helper()
	if err := w.control.Roll(model, to, w.now); err != nil {
		w.t.Fatal(err)
	}
	w.next = w.now
}

// until lets time pass until the condition holds, for a time at most.
func (w *simulation) until(limit time.Duration, done func() bool) {
	w.t.Helper()
	for end := w.now + limit; !done(); w.tick() {
		if w.now > end {
			for i := range w.control.Models() {
				w.t.Logf("%+v", w.control.Status(i, w.now))
			}
			w.t.Fatalf("not after %v; states %v", limit, w.state)
		}
	}
}

// settled reports whether the model is rolling no more.
func (w *simulation) settled(model int) func() bool {
	return func() bool { return !w.control.Status(model, w.now).Rolling }
}

// kinds are the kinds of the steps so far.
func (w *simulation) kinds() (list []rollout.StepKind) {
	for _, s := range w.steps {
		list = append(list, s.Kind)
	}
	return list
}

// answering is at how many locations of the model something takes requests.
func (w *simulation) answering(model int) (n int) {
	for _, p := range w.control.Status(model, w.now).Locations {
		for _, r := range p.Replicas {
			if w.state[r] == fleet.Up && w.part[r] > 0 {
				n++
				break
			}
		}
	}
	return n
}

// versions are those that the active replicas of the model have loaded.
func (w *simulation) versions(model int) (list []string) {
	for _, p := range w.control.Status(model, w.now).Locations {
		list = append(list, w.has[p.Replicas[p.Active]])
	}
	return list
}
