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

// fake is a system that carries out actions: each host holds assignments, loads take the time
// of their variant, unloads none. It checks each action.
type fake struct {
	t       *testing.T
	problem *failover.Problem
	c       *failover.Controller
	now     time.Duration
	next    time.Duration // wake
	beats   []time.Duration
	dead    []bool
	mute    []bool // alive, and not heard
	run     []uint64
	holds   []map[failover.Assignment]bool // what is loaded by host
	pending []load
	active  []failover.Assignment // by application
	newest  uint64
	steps   []failover.Step
	fail    func(o failover.Order) bool
	slow    func(failover.Assignment) time.Duration // in addition to the load time
	seed    uint64
	broken  string          // the first thing that an action did which none may do
	quiet   bool            // no heartbeats
	lost    map[uint64]bool // epochs of actions that do not reach their host
	held    []end           // of hosts that are not heard
	absent  bool            // the controller is dead
	rng     *rand.Rand
}

type load struct {
	failover.Order
	at time.Duration
}

// end is how an order has ended.
type end struct {
	failover.Order
	kind   control.Kind
	reason string
}

const heartbeat = 20 * time.Millisecond

func newFake(t *testing.T, p *failover.Problem, o failover.Options) *fake {
	t.Helper()
	n := len(p.Hosts)
	f := &fake{lost: map[uint64]bool{}, t: t, problem: p, dead: make([]bool, n), mute: make([]bool, n), run: make([]uint64, n), beats: make([]time.Duration, n)}
	for i := range n {
		f.holds, f.run[i] = append(f.holds, map[failover.Assignment]bool{}), 1
		f.beats[i] = heartbeat
	}
	f.start(o)
	for i, a := range f.c.Status().Applications {
		f.active = append(f.active, a.Active)
		if a.Active != failover.Nowhere {
			f.holds[a.Active.Host][f.active[i]] = true
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
	c, err := failover.New(f.problem, o, f)
	if err != nil {
		f.t.Fatal(err)
	}
	f.c, f.next = c, f.now
}

func (f *fake) Act(a failover.Order) error {
	at, host := a.Assignment, a.Host
	f.check(a.Epoch > f.newest, "epoch %d after %d", a.Epoch, f.newest)
	f.newest = a.Epoch
	f.trace("%v %s epoch %x dead %v mute %v", a.Verb, f.name(at), a.Epoch, f.dead[host], f.mute[host])
	if f.dead[host] {
		return nil // it is lost on the way
	}
	if f.mute[host] && a.Verb <= control.Unload {
		f.pending = append(f.pending, load{a, f.now + time.Second}) // no answer
		f.lost[a.Epoch] = true
		return nil
	}
	switch a.Verb {
	case control.Load:
		again := slices.IndexFunc(f.pending, func(l load) bool {
			return l.Assignment == at && l.Verb == control.Load && !f.lost[l.Epoch]
		})
		if again >= 0 || f.holds[host][at] {
			older := again >= 0 && f.pending[again].Epoch>>32 < a.Epoch>>32 || again < 0 && f.c.Status().Term > 1
			f.check(older, "%v is loaded twice", f.name(at))
			if again >= 0 {
				f.pending[again].Order = a
				return nil
			}
			f.pending = append(f.pending, load{a, f.now})
			return nil
		}
		took := f.problem.Variant(at).Load
		if f.slow != nil {
			took += f.slow(at)
		}
		f.pending = append(f.pending, load{a, f.now + took})
		f.capacity(host)
	case control.Unload:
		f.pending = append(f.pending, load{a, f.now + 5*time.Millisecond})
	case control.Activate:
		f.check(f.holds[host][at], "%v is activated, and not loaded", f.name(at))
		f.active[at.App] = at
	}
	return nil
}

// resident are the assignments that take the host's memory.
func (f *fake) resident(host int) (list []failover.Assignment) {
	for id := range f.holds[host] {
		list = append(list, id)
	}
	for _, l := range f.pending {
		if l.Host == host && l.Verb == control.Load && !f.holds[host][l.Assignment] && !f.lost[l.Epoch] {
			list = append(list, l.Assignment)
		}
	}
	slices.SortFunc(list, failover.Assignment.Compare)
	return slices.Compact(list)
}

func (f *fake) capacity(host int) {
	for r, x := range f.problem.Taken(host, f.resident(host)) {
		f.check(x <= f.problem.Capacity[host][r]*(1+1e-6), "%v of %v are taken on server %d: %v", x, f.problem.Capacity[host][r], host, f.names(f.resident(host)))
	}
}

func (f *fake) check(ok bool, format string, args ...any) {
	if !ok && f.broken == "" {
		f.broken = fmt.Sprintf("%v: ", f.now) + fmt.Sprintf(format, args...)
	}
}

func (f *fake) names(list []failover.Assignment) (names []string) {
	for _, id := range list {
		names = append(names, f.name(id))
	}
	return names
}

func (f *fake) name(a failover.Assignment) string {
	return f.problem.Applications[a.App].Name + "/" + f.problem.Name(a)
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
	e := end{l.Order, l.Verb.Done(), ""}
	switch {
	case f.lost[l.Epoch]:
		e.kind, e.reason = control.ActionFailed, "no answer"
		f.ended(e)
		return
	case f.fail != nil && f.fail(l.Order) && !(l.Verb == control.Load && f.holds[l.Host][l.Assignment]):
		e.kind, e.reason = control.ActionFailed, "no"
	case l.Verb == control.Load:
		f.holds[l.Host][l.Assignment] = true
	case l.Verb == control.Unload:
		delete(f.holds[l.Host], l.Assignment)
	}
	if f.mute[l.Host] {
		f.held = append(f.held, e)
		return
	}
	f.ended(e)
}

// ended reports the end of an order to the controller, if there is one.
func (f *fake) ended(e end) {
	f.trace("%v %s epoch %x absent %v", e.kind, f.name(e.Assignment), e.Epoch, f.absent)
	if !f.absent {
		f.c.Ended(e.Order, e.kind, e.reason)
	}
}

// tell reports the event to the controller, if there is one.
func (f *fake) tell(e control.Event) {
	if !f.absent {
		f.c.Observe(e)
	}
}

// unmute has the host be heard again, with what it could not report.
func (f *fake) unmute(host int) {
	f.mute[host] = false
	held := f.held
	f.held = nil
	for _, e := range held {
		if e.Host != host {
			f.held = append(f.held, e)
			continue
		}
		f.ended(e)
	}
}

func (f *fake) observe(e control.Event) {
	f.tell(e)
	f.wake()
}

// kill ends the host's process.
func (f *fake) kill(host int) {
	f.dead[host], f.mute[host] = true, false
	clear(f.holds[host])
	f.pending = slices.DeleteFunc(f.pending, func(l load) bool { return l.Host == host })
	for app, id := range f.active {
		if id.Host == host {
			f.active[app] = failover.Nowhere
		}
	}
}

// start it again.
func (f *fake) revive(host int) {
	f.dead[host] = false
	f.run[host]++
	f.beats[host] = f.now
	f.held = slices.DeleteFunc(f.held, func(e end) bool { return e.Host == host })
	f.register(host)
	f.wake()
}

// register has the host's agent say what is loaded.
func (f *fake) register(host int) {
	if f.absent {
		return
	}
	var list []failover.Assignment
	for id := range f.holds[host] {
		list = append(list, id)
	}
	slices.SortFunc(list, failover.Assignment.Compare)
	f.c.Heard(host, f.run[host], list, f.now)
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
