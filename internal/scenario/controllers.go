package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gearshift/env"
	"gearshift/internal/scenario/placing"
	"gearshift/router/control"
	"gearshift/router/failover"
	"gearshift/router/fleet"
	"gearshift/router/health"
	"gearshift/router/lifecycle"
	"gearshift/router/placement/bands"
	"gearshift/router/placement/layouts"
	"gearshift/router/placement/replicas"
	"gearshift/router/rollout"
	"gearshift/router/signals"
	"gearshift/workloads"
)

// Controlled reports whether the file has controllers that change which replicas are up while it serves: failover,
// changes of version, rebalancing, counts of replicas, held requests, or layouts of hosts. They act on the fleet in
// simulations too, unless one variant stands alone.
func (s *Scenario) Controlled() bool {
	_, moves := s.Rebalancing()
	return !s.alone && (s.failing || s.rolling || moves || Of[Counts](s).Period > 0 || s.Wakes() || Of[placing.Section](s).On())
}

// Wakes reports whether replicas are woken or loaded as requests are held for them.
func (s *Scenario) Wakes() bool { return s.Serving.Server.Hold.For > 0 }

// Waking reports whether a controller of its own wakes them. Where layouts of hosts are decided, their controller does.
func (s *Scenario) Waking() bool { return s.Wakes() && !Of[placing.Section](s).On() }

// controllers make those of a simulated fleet: the lifecycle's, and where they are asked for those of health, and
// of the file's sections.
type controllers struct {
	*Scenario
	orders   []order
	drawn    func(seed uint64) []order // of an episode, in place of orders; may be nil
	evidence bool
	all      bool // the file's sections
}

// probeEvery is how often hosts are probed where the scenario's server does not probe.
const probeEvery = 2 * time.Second

// act has the controllers act in the episodes of a configuration.
func (x controllers) act(c *env.Config) {
	failing := x.all && x.failing
	if x.evidence = x.evidence || failing; x.evidence {
		c.Evidence.Probe = cmp.Or(x.Serving.Server.Health.ProbeInterval, probeEvery)
	}
	if failing {
		c.Evidence.Heartbeat = Of[Failover](x.Scenario).Heartbeat
	}
	if c.LoadTimes == nil {
		c.LoadTimes = x.loadTimes(c)
	}
	c.Controllers = func(w env.ControlAccess) []control.Controller {
		orders := x.orders
		if x.drawn != nil {
			orders = x.drawn(w.Seed)
		}
		if len(orders) == 0 && !x.evidence && !x.all {
			return nil
		}
		return x.list(w, orders)
	}
}

// list makes those of one episode.
func (x controllers) list(w env.ControlAccess, orders []order) (list []control.Controller) {
	life := lifecycle.New(w.Ledger, w.Actuator, lifecycle.Options{Nudge: w.Rouse})
	line := &timeline{Controller: life, orders: orders}
	if x.drawn == nil { // what still drains or loads when its next step is drawn goes on with that
		line.fail = w.Fail
	}
	list = append(list, line)
	var monitor *health.Controller
	if x.evidence {
		monitor = &health.Controller{Monitor: health.New(x.Serving.Server.Health, w.Ledger, make([]string, len(w.Ledger.Table().Replicas)), w.Seed)}
		list = append(list, monitor)
	}
	if !x.all {
		return list
	}
	sections, err := x.sections(w, life, monitor, line)
	if err != nil {
		w.Fail(err)
	}
	return append(list, sections...)
}

// sections makes those of the file's sections, in the order in which a server has them.
func (x controllers) sections(w env.ControlAccess, life *lifecycle.Controller, monitor *health.Controller, line *timeline) (list []control.Controller, err error) {
	e, busy := engines{x.Scenario, w, monitor}, x.Busy(w.Ledger)
	list = append(list, answers{busy, x.Measures() || x.prefers()})
	if x.rolling {
		models, _ := x.Versioned()
		v, err := rollout.NewReplicas(models, x.RolloutOptions(), w.Ledger, busy, func(int, *rollout.Versioned, string) {})
		if err != nil {
			return nil, err
		}
		v.Claim(life.Claim, nil)
		line.versions = v
		list = append(list, versions{v})
	}
	if x.failing {
		f, err := failover.NewReplicas(x.FailoverProblem(true), x.FailoverOptions(), w.Ledger.Table(), e)
		if err != nil {
			return nil, err
		}
		f.Claim(life.Claim, func(replica int) {
			err = fmt.Errorf("%s has to be up at the start", w.Ledger.Table().Replicas[replica].Name)
		})
		list = append(list, failures{f, make([]uint64, len(w.Ledger.Table().Hosts))})
	}
	if settings, on := x.Rebalancing(); on {
		b, err := bands.NewReplicas(settings, w.Ledger, busy, e)
		if err != nil {
			return nil, err
		}
		b.Claim(life.Claim)
		list = append(list, moves{b})
	}
	if counted, period := x.Counts(w.Ledger.Table()); period > 0 {
		r, err := replicas.NewReplicas(counted, period, w.Ledger, busy, e)
		if err != nil {
			return nil, err
		}
		r.Claim(life.Claim)
		list = append(list, counts{r})
	}
	if x.Waking() {
		r := lifecycle.NewWaker(w.Ledger, e)
		r.Claim(life.Claim)
		list = append(list, wakes{r})
	}
	if o, on := x.Placing(w.Ledger.Table()); on {
		o.Takes = w.Takes
		p, err := layouts.New(o, w.Ledger, busy, e)
		if err != nil {
			return nil, err
		}
		p.Claim(life.Claim)
		list = append(list, placed{p})
	}
	return list, err
}

// timeline is a [control.Controller] that has the lifecycle's do what a list says, in order
// of its times, and that of versions.
type timeline struct {
	*lifecycle.Controller
	versions *rollout.Replicas // may be nil
	orders   []order
	// fail is told of what cannot be done. Nil drops it.
	fail func(error)
}

// patience is how long a replica may take to drain: as long as a run.
const patience = 1000 * time.Hour

// Wake implements [control.Controller].
func (t *timeline) Wake(now time.Duration) time.Duration {
	for len(t.orders) > 0 && t.orders[0].At <= now {
		o := t.orders[0]
		t.orders = t.orders[1:]
		if err := t.carryOut(o, now); err != nil && t.fail != nil {
			t.fail(fmt.Errorf("cannot %s at %v: %w", o.Verb, now, err))
		}
	}
	next := t.Controller.Wake(now)
	if len(t.orders) > 0 {
		next = min(next, t.orders[0].At)
	}
	return next
}

func (t *timeline) carryOut(o order, now time.Duration) error {
	if o.Verb != workloads.Version {
		return t.Want(o.replica, o.target, lifecycle.Order{DrainTimeout: patience})
	}
	if t.versions == nil { // of a fleet whose variants stand alone
		return nil
	}
	name, version, _ := strings.Cut(o.Replica, "=")
	return t.versions.Roll(t.versions.Index(name), version, now)
}

// failures, versions, moves, counts, wakes and placed count what they do. Versions and moves follow how requests end.
type (
	failures struct {
		*failover.Replicas
		incarnations []uint64 // by host
	}
	versions struct{ *rollout.Replicas }
	moves    struct{ *bands.Replicas }
	counts   struct{ *replicas.Replicas }
	wakes    struct{ *lifecycle.Waker }
	placed   struct{ *layouts.Controller }
)

// Registered implements [env.Registrar].
func (f failures) Registered(host int, there func(replica int) bool, now time.Duration) {
	f.incarnations[host]++
	f.Heard(host, f.incarnations[host], there, now)
}

// Counts implements [env.Counter].
func (f failures) Counts() []env.Count {
	c := f.Status().Counts
	return []env.Count{
		{Name: "failovers", N: c.Failovers}, {Name: "applications lost", N: c.Affected}, {Name: "recovered", N: c.Recovered},
		{Name: "moved back", N: c.FailedBack}, {Name: "false alarms", N: c.FalseAlarms}, {Name: "backups loaded", N: c.Loads},
	}
}

// Counts implements [env.Counter].
func (v versions) Counts() []env.Count {
	changed, back := 0, 0
	for i := range v.Models() {
		c := v.Status(i, 0).Counts
		changed, back = changed+c.Changes, back+c.Backs
	}
	return []env.Count{{Name: "versions changed", N: changed}, {Name: "rolled back", N: back}}
}

// Counts implements [env.Counter].
func (m moves) Counts() []env.Count {
	s := m.Status()
	return []env.Count{{Name: "replicas moved", N: s.Moved}, {Name: "moves failed", N: s.Failed}}
}

// Counts implements [env.Counter].
func (c counts) Counts() []env.Count {
	loads, unloads := c.Ended()
	return []env.Count{{Name: "replicas started", N: loads}, {Name: "replicas stopped", N: unloads}}
}

// Counts implements [env.Counter].
func (w wakes) Counts() []env.Count {
	return []env.Count{{Name: "replicas woken for held requests", N: w.Wakes()}}
}

// Counts implements [env.Counter].
func (p placed) Counts() []env.Count {
	changes, failed := p.Ended()
	return []env.Count{{Name: "layouts changed", N: changes}, {Name: "changes failed", N: failed}}
}

// Ended implements [env.Watcher].
func (v versions) Ended(o *env.Outcome) {
	if o.Failed {
		v.Failed(o.Replica)
	} else {
		v.Answered(o.Replica, o.Finished-o.Request.Arrival-o.Waited)
	}
}

// Ended implements [env.Watcher].
func (m moves) Ended(o *env.Outcome) {
	if !o.Failed {
		m.Answered(o.Replica, o.OutputTokens)
	}
}

// engines are the simulated fleet as the controllers of sections see it.
type engines struct {
	*Scenario
	env.ControlAccess
	monitor *health.Controller
}

func (e engines) on(host int) []int { return e.Ledger.Table().ReplicasOn(host) }

// Leave implements [failover.Hosts].
func (e engines) Leave(host int, now time.Duration) {
	for _, r := range e.on(host) {
		e.monitor.Leave(r, now)
	}
}

// Return implements [failover.Hosts].
func (e engines) Return(host int, now time.Duration) {
	for _, r := range e.on(host) {
		e.monitor.Return(r, now)
	}
}

// Poll implements [failover.Hosts]: the simulator reports what changes.
func (e engines) Poll(int) {}

// Ask implements [failover.Hosts].
func (e engines) Ask(host int) { e.ControlAccess.Ask(host) }

// Driven implements [failover.Hosts] and [lifecycle.Engines]: where the scenario names engines, those that it has
// no lifecycle for stay as they are.
func (e engines) Driven(replica int) bool { return e.drives(&e.Ledger.Table().Replicas[replica]) }

func (s *Scenario) drives(r *fleet.Replica) bool {
	return s.Serving.Backend != Upstream || s.Serving.Upstreams[r.Name].Lifecycle != ""
}

// Ordered implements [lifecycle.Engines].
func (e engines) Ordered(control.Action, error) {}

// answers measures how busy hosts are by the answers that there are, and shows it to policies that see it.
type answers struct {
	*signals.Busy
	shown bool
}

// Observe and Wake implement [control.Controller].
func (answers) Observe(control.Event) {}
func (a answers) Wake(now time.Duration) time.Duration {
	if !a.shown {
		return control.Never
	}
	return a.Show(now)
}

// Ended implements [env.Watcher].
func (a answers) Ended(o *env.Outcome) {
	if !o.Failed {
		a.Answered(o.Replica, o.OutputTokens, o.Finished)
	}
}

// verbs are what the steps of a timeline may do: the states that a replica may be in
// before, and that it is brought into. The first of the former is the one that a replica
// is taken to start in whose first step it is.
var verbs = map[string]struct {
	from []fleet.State
	to   fleet.State
}{
	"load":    {[]fleet.State{fleet.Cold}, fleet.Up},
	"wake":    {[]fleet.State{fleet.Warm}, fleet.Up},
	"undrain": {[]fleet.State{fleet.Draining}, fleet.Up},
	"unload":  {[]fleet.State{fleet.Up, fleet.Draining, fleet.Warm}, fleet.Cold},
	"sleep":   {[]fleet.State{fleet.Up, fleet.Draining}, fleet.Warm},
	"drain":   {[]fleet.State{fleet.Up}, fleet.Draining},
}

// order is one step of a timeline for a replica of a fleet.
type order struct {
	workloads.Step
	replica int
	target  fleet.State
}

// orders returns the steps for the replicas of a table, and the states in which these start.
// Of the variants that the table does not have, a static policy's, nothing is wanted.
func (s *Scenario) orders(steps []workloads.Step, t *fleet.Table) (list []order, initial []fleet.State, err error) {
	states := map[string]fleet.State{} // so far, by name
	index := func(t *fleet.Table, name string) int {
		return slices.IndexFunc(t.Replicas, func(r fleet.Replica) bool { return r.Name == name })
	}
	all := s.Table()
	for _, r := range t.Replicas {
		initial = append(initial, r.Initial)
	}
	for _, step := range steps {
		if step.Verb == workloads.Version {
			if err := s.versioned(step); err != nil {
				return nil, nil, fmt.Errorf("+%v: %w", step, err)
			}
			list = append(list, order{step, -1, fleet.Up})
			continue
		}
		verb := verbs[step.Verb]
		if index(all, step.Replica) < 0 {
			return nil, nil, fmt.Errorf("+%v: no replica %q; want VARIANT@HOST, such as %s", step, step.Replica, all.Replicas[0].Name)
		}
		i := index(t, step.Replica)
		is, met := states[step.Replica]
		if !met {
			is = verb.from[0]
		}
		if !slices.Contains(verb.from, is) {
			return nil, nil, fmt.Errorf("+%v: %s is %v by then; want it %v", step, step.Replica, is, verb.from[0])
		}
		states[step.Replica] = verb.to
		if i < 0 {
			continue
		}
		if !met && is == fleet.Draining {
			list = append([]order{{workloads.Step{Verb: "drain", Replica: step.Replica}, i, fleet.Draining}}, list...)
		} else if !met {
			initial[i] = is
		}
		list = append(list, order{step, i, verb.to})
	}
	return list, initial, nil
}
