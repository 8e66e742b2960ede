package failover_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/failover"
)

// fake is a system that carries out actions: each server holds instances, loads take the time
// of their variant, unloads none. It checks each action.
type fake struct {
	t       *testing.T
	system  *failover.System
	c       *failover.Controller
	now     time.Duration
	next    time.Duration // wake
	beats   []time.Duration
	dead    []bool
	mute    []bool // alive, and not heard
	run     []uint64
	holds   []map[int]bool // loaded instances by server
	pending []load
	active  []int // by application
	newest  uint64
	steps   []failover.Step
	fail    func(a control.Action) bool
	slow    func(instance int) time.Duration // in addition to the load time
	seed    uint64
	broken  string          // the first thing that an action did which none may do
	quiet   bool            // no heartbeats
	lost    map[uint64]bool // epochs of actions that do not reach their server
	held    []control.Event // of servers that are not heard
	absent  bool            // the controller is dead
	rng     *rand.Rand
}

type load struct {
	action control.Action
	server int
	at     time.Duration
}

const heartbeat = 20 * time.Millisecond

func newFake(t *testing.T, s *failover.System, o failover.Options) *fake {
	t.Helper()
	n := len(s.Servers)
	f := &fake{lost: map[uint64]bool{}, t: t, system: s, dead: make([]bool, n), mute: make([]bool, n), run: make([]uint64, n), beats: make([]time.Duration, n)}
	for i := range n {
		f.holds, f.run[i] = append(f.holds, map[int]bool{}), 1
		f.beats[i] = heartbeat
	}
	f.start(o)
	for i, a := range f.c.Status().Applications {
		f.active = append(f.active, a.Active)
		if a.Active >= 0 {
			_, _, server := s.Of(a.Active)
			f.holds[server][f.active[i]] = true
		}
	}
	return f
}

// start makes a controller.
func (f *fake) start(o failover.Options) {
	f.t.Helper()
	report := o.Report
	o.Report = func(s failover.Step) {
		f.steps = append(f.steps, s)
		if report != nil {
			report(s)
		}
	}
	c, err := failover.New(f.system, o, f)
	if err != nil {
		f.t.Fatal(err)
	}
	f.c, f.next = c, f.now
}

func (f *fake) Act(a control.Action) error {
	app, variant, server := f.system.Of(a.Replica)
	f.check(a.Epoch > f.newest, "epoch %d after %d", a.Epoch, f.newest)
	f.newest = a.Epoch
	f.trace("%v %s epoch %x dead %v mute %v", a.Verb, f.name(a.Replica), a.Epoch, f.dead[server], f.mute[server])
	v := &f.system.Applications[app].Variants[variant]
	if f.dead[server] {
		return nil // it is lost on the way
	}
	if f.mute[server] && a.Verb <= control.Unload {
		f.pending = append(f.pending, load{a, server, f.now + time.Second}) // no answer
		f.lost[a.Epoch] = true
		return nil
	}
	switch a.Verb {
	case control.Load:
		again := slices.IndexFunc(f.pending, func(l load) bool {
			return l.action.Replica == a.Replica && l.action.Verb == control.Load && !f.lost[l.action.Epoch]
		})
		if again >= 0 || f.holds[server][a.Replica] {
			older := again >= 0 && f.pending[again].action.Epoch>>32 < a.Epoch>>32 || again < 0 && f.c.Status().Term > 1
			f.check(older, "%v is loaded twice", f.name(a.Replica))
			if again >= 0 {
				f.pending[again].action = a
				return nil
			}
			f.pending = append(f.pending, load{a, server, f.now})
			return nil
		}
		took := v.Load
		if f.slow != nil {
			took += f.slow(a.Replica)
		}
		f.pending = append(f.pending, load{a, server, f.now + took})
		f.capacity(server)
	case control.Unload:
		f.pending = append(f.pending, load{a, server, f.now + 5*time.Millisecond})
	case control.Activate:
		f.check(f.holds[server][a.Replica], "%v is activated, and not loaded", f.name(a.Replica))
		f.active[app] = a.Replica
	}
	return nil
}

// resident are the instances that take the server's memory.
func (f *fake) resident(server int) (list []int) {
	for id := range f.holds[server] {
		list = append(list, id)
	}
	for _, l := range f.pending {
		if l.server == server && l.action.Verb == control.Load && !f.holds[server][l.action.Replica] && !f.lost[l.action.Epoch] {
			list = append(list, l.action.Replica)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (f *fake) capacity(server int) {
	for r, x := range f.system.Taken(server, f.resident(server)) {
		f.check(x <= f.system.Servers[server].Capacity[r]*(1+1e-6), "%v of %v are taken on server %d: %v", x, f.system.Servers[server].Capacity[r], server, f.names(f.resident(server)))
	}
}

func (f *fake) check(ok bool, format string, args ...any) {
	if !ok && f.broken == "" {
		f.broken = fmt.Sprintf("%v: ", f.now) + fmt.Sprintf(format, args...)
	}
}

func (f *fake) names(list []int) (names []string) {
	for _, id := range list {
		names = append(names, f.name(id))
	}
	return names
}

func (f *fake) name(instance int) string {
	app, variant, server := f.system.Of(instance)
	a := &f.system.Applications[app]
	return fmt.Sprintf("%s/%s@%s", a.Name, a.Variants[variant].Name, f.system.Servers[server].Name)
}

// advance lets time pass.
func (f *fake) advance(until time.Duration) {
	f.t.Helper()
	for {
		at := min(until, f.next)
		for i, b := range f.beats {
			if !f.quiet && !f.dead[i] && !f.mute[i] {
				at = min(at, max(b, f.now))
			}
		}
		for _, l := range f.pending {
			at = min(at, max(l.at, f.now))
		}
		f.now = max(f.now, at)
		f.events()
		if f.next <= f.now {
			f.wake()
		}
		if f.broken != "" {
			f.t.Fatal(f.broken, f.seed)
		}
		if f.now >= until {
			return
		}
	}
}

func (f *fake) wake() {
	if f.absent {
		f.next = control.Never
		return
	}
	f.next = f.c.Wake(f.now)
}

// events delivers what is due.
func (f *fake) events() {
	for i := range f.beats {
		if f.quiet || f.beats[i] > f.now {
			continue
		}
		f.beats[i] = f.now + heartbeat
		if !f.dead[i] && !f.mute[i] {
			f.observe(control.Event{At: f.now, Kind: control.Heartbeat, Replica: -1, Host: i})
		}
	}
	var later []load
	due := f.pending
	f.pending = nil
	for _, l := range due {
		if l.at > f.now {
			later = append(later, l)
			continue
		}
		f.finish(l)
	}
	f.pending = append(later, f.pending...)
	if len(later) < len(due) {
		f.wake()
	}
}

func (f *fake) finish(l load) {
	e := control.Event{At: f.now, Replica: l.action.Replica, Host: l.server, Action: l.action, Kind: l.action.Verb.Done()}
	switch {
	case f.lost[l.action.Epoch]:
		e.Kind, e.Reason = control.ActionFailed, "no answer"
		f.tell(e)
		return
	case f.fail != nil && f.fail(l.action) && !(l.action.Verb == control.Load && f.holds[l.server][l.action.Replica]):
		e.Kind, e.Reason = control.ActionFailed, "no"
	case l.action.Verb == control.Load:
		f.holds[l.server][l.action.Replica] = true
	case l.action.Verb == control.Unload:
		delete(f.holds[l.server], l.action.Replica)
	}
	if f.mute[l.server] {
		f.held = append(f.held, e)
		return
	}
	f.tell(e)
}

// tell reports the event to the controller, if there is one.
func (f *fake) tell(e control.Event) {
	if e.Kind > control.ProbePassed {
		f.trace("%v %s epoch %x absent %v", e.Kind, f.name(e.Replica), e.Action.Epoch, f.absent)
	}
	if !f.absent {
		f.c.Observe(e)
	}
}

// unmute has the server be heard again, with what it could not report.
func (f *fake) unmute(server int) {
	f.mute[server] = false
	held := f.held
	f.held = nil
	for _, e := range held {
		if e.Host != server {
			f.held = append(f.held, e)
			continue
		}
		e.At = f.now
		f.tell(e)
	}
}

func (f *fake) observe(e control.Event) {
	f.tell(e)
	f.wake()
}

// kill ends the server's process.
func (f *fake) kill(server int) {
	f.dead[server], f.mute[server] = true, false
	clear(f.holds[server])
	f.pending = slices.DeleteFunc(f.pending, func(l load) bool { return l.server == server })
	for app, id := range f.active {
		if id >= 0 {
			if _, _, s := f.system.Of(id); s == server {
				f.active[app] = -1
			}
		}
	}
}

// start it again.
func (f *fake) revive(server int) {
	f.dead[server] = false
	f.run[server]++
	f.beats[server] = f.now
	f.held = slices.DeleteFunc(f.held, func(e control.Event) bool { return e.Host == server })
	f.register(server)
	f.wake()
}

// register has the server's agent say what is loaded.
func (f *fake) register(server int) {
	if f.absent {
		return
	}
	var list []int
	for id := range f.holds[server] {
		list = append(list, id)
	}
	slices.Sort(list)
	f.c.Heard(server, f.run[server], list, f.now)
}

// of lists the steps of a kind.
func (f *fake) of(kind failover.StepKind) (list []failover.Step) {
	for _, s := range f.steps {
		if s.Kind == kind {
			list = append(list, s)
		}
	}
	return list
}
