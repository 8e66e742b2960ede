// Package applications simulates clients of applications at their rates, while hosts die and return, and the
// controller of router/failover that a router runs too loads what takes over. Time is virtual, and a run repeats exactly.
//
// Requests are not routed: an application's clients send to what answers it, and each answer takes
// what the variant takes alone. Hosts, their losses, heartbeats and the controller's wakes are those of
// [env.Simulator], which the clients follow; requests are counted whenever something changes for them, so that
// none is an event.
package applications

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"gearshift/env"
	"gearshift/env/engine"
	"gearshift/internal/splitmix"
	"gearshift/router/control"
	"gearshift/router/failover"
	"gearshift/router/fleet"
)

// Config is what is simulated.
type Config struct {
	// Problem is copied for each run, since a controller completes its own.
	Problem *failover.Problem
	// Options are the controller's. Report is called with its steps too.
	Options failover.Options
	// Losses are of hosts of the problem.
	Losses []env.HostLoss
	// Length is when the run ends.
	Length time.Duration
	Seed   uint64
	// Switch is how long clients go on to send nothing after a variant has been activated in place
	// of one that was lost. Those of one that is swapped notice nothing.
	Switch time.Duration
	// Traffic reports connections that are refused, and requests that break, to the controller, as a router
	// does, the connection of an agent whose process is gone among them, and answers it where it asks a
	// host that it suspects. Without it heartbeats are all that the controller sees.
	Traffic bool
	// Patience is how long a client waits for an answer. Zero is 30 s.
	Patience time.Duration
	// Check has the state of the controller compared with the world after each step.
	Check bool
}

// Once is the loss of hosts for good, all at one time: within a second after the first minute, so that it
// falls anywhere between two heartbeats or sweeps.
func Once(seed uint64, silent bool, hosts ...int) (losses []env.HostLoss) {
	at := time.Minute + time.Duration(splitmix.Unit(splitmix.Mix(seed+uint64(hosts[0])))*float64(time.Second))
	for _, s := range hosts {
		losses = append(losses, env.HostLoss{Host: s, From: at, Silent: silent})
	}
	return losses
}

// The kinds of what is scheduled, in the order of equal times.
const (
	actionEnds env.ItemKind = iota
	clientsSwitch
	clientSends
)

// simulation is a run. It implements [env.Scheduled].
type simulation struct {
	Config
	simulator  *env.Simulator
	controller *failover.Controller
	now        time.Duration
	hosts      []host
	apps       []application
	actions    []action
	newest     uint64 // epoch
	result     *Result
	latest     map[int]at // by application
	number     int        // of the last failover
	stepped    bool       // the controller has, since the last check
	fault      error
}

// host is the truth of one.
type host struct {
	down        bool
	since       time.Duration // of that
	gone        bool          // its process
	incarnation uint64
	loaded      map[failover.Assignment]bool
	loads       []int // actions under way, the first few of them running
}

// action is a load or an unload under way.
type action struct {
	failover.Order
	began bool
	ends  time.Duration // −1: not in the near future, its host stands still
	over  bool
}

// Run plays the losses.
func Run(c Config) (*Result, error) {
	sim, err := newSimulation(c)
	if err != nil {
		return nil, err
	}
	if _, err := sim.simulator.Advance(c.Length, nil); err != nil {
		return nil, fmt.Errorf("cannot simulate at %v: %w", sim.now, err)
	}
	sim.end()
	return sim.result, nil
}

func newSimulation(c Config) (*simulation, error) {
	c.Problem = copyOf(c.Problem)
	c.Patience = cmp.Or(c.Patience, 30*time.Second)
	sim := &simulation{Config: c, result: &Result{Length: c.Length}, latest: map[int]at{}}
	sim.Config.Options.Heartbeat = cmp.Or(c.Options.Heartbeat, failover.DefaultOptions().Heartbeat)
	sim.Config.Options.Loaders = cmp.Or(c.Options.Loaders, failover.DefaultOptions().Loaders)
	for range c.Problem.Hosts {
		sim.hosts = append(sim.hosts, host{loaded: map[failover.Assignment]bool{}})
	}
	config := &env.Config{
		Laws: sim.laws, Losses: c.Losses, Evidence: env.Evidence{Heartbeat: max(0, sim.Options.Heartbeat)},
		Controllers: func(a env.ControlAccess) []control.Controller {
			return []control.Controller{&watched{sim.controller, sim}}
		},
	}
	var err error
	if config.Table, err = sim.table(); err != nil {
		return nil, err
	}
	if sim.simulator, err = env.NewSimulator(config); err != nil {
		return nil, err
	}
	o := c.Options
	o.Report = sim.step
	if c.Traffic {
		o.Ask = sim.simulator.Ask
	}
	if sim.controller, err = failover.New(c.Problem, o, sim); err != nil {
		return nil, err
	}
	sim.begin()
	sim.simulator.Follow(config, fleet.NewLedger(config.Table), c.Seed, sim)
	return sim, nil
}

// table has the hosts. What is loaded there is the controller's business.
func (sim *simulation) table() (*fleet.Table, error) {
	return fleet.NewTable([]fleet.Task{{Name: "any", Deadline: time.Second, Weight: 1, Quality: []float64{1}}}, []fleet.Variant{{Name: "any"}}, sim.Problem.Hosts, []fleet.Replica{{Name: "any"}})
}

// laws are of hosts whose answers take what their variants take, whatever else is under way: nothing has to happen
// there for it.
func (sim *simulation) laws() []env.Law {
	list := make([]env.Law, len(sim.hosts))
	for i := range list {
		list[i] = engine.NewHost()
	}
	return list
}

// begin has clients send where the primaries are.
func (sim *simulation) begin() {
	status := sim.controller.Status()
	for i := range status.Applications {
		x := application{target: status.Applications[i].Active, next: status.Applications[i].Active, failed: -1, random: rand.New(rand.NewPCG(splitmix.Mix(sim.Seed), 2+uint64(i)))}
		if x.target != failover.Nowhere {
			sim.hosts[x.target.Host].loaded[x.target], x.ok = true, true
		}
		sim.apps = append(sim.apps, x)
		sim.draw(i)
	}
}

// Due implements [env.Scheduled].
func (sim *simulation) Due(x env.Item) error {
	sim.now = x.At
	switch x.Kind {
	case actionEnds:
		sim.complete(x.Index)
	case clientsSwitch:
		sim.switchTo(x.Index)
	case clientSends:
		sim.send(x.Index)
	}
	sim.simulator.Rouse()
	return sim.fault
}

// Ended, Broken and Measure implement [env.Follower]: no request is the simulator's.
func (sim *simulation) Ended(uint64, time.Duration) error { return nil }
func (sim *simulation) Broken(uint64, time.Duration)      {}
func (sim *simulation) Measure(time.Duration)             {}

// watched is the controller, of which the simulation follows what it does. It implements [control.Controller].
type watched struct {
	*failover.Controller
	sim *simulation
}

// Wake implements [control.Controller].
func (w *watched) Wake(now time.Duration) time.Duration {
	sim := w.sim
	sim.now = now
	next := w.Controller.Wake(now)
	if sim.Check && sim.stepped && sim.fault == nil {
		sim.fault = sim.check()
	}
	if sim.stepped = false; sim.fault != nil {
		sim.simulator.Fail(sim.fault)
	}
	return next
}

// Registered implements [env.Registrar]. A host that only stood still is the one that it was.
func (w *watched) Registered(on int, _ func(int) bool, now time.Duration) {
	sim, s := w.sim, &w.sim.hosts[on]
	if s.incarnation == 0 || s.gone {
		s.gone = false
		s.incarnation++
		sim.controller.Heard(on, s.incarnation, sim.held(on), now)
	}
}

// copyOf returns a problem that a run may complete.
func copyOf(p *failover.Problem) *failover.Problem {
	x := *p
	x.Applications = slices.Clone(p.Applications)
	return &x
}

// held lists the assignments that are loaded on a host.
func (sim *simulation) held(on int) []failover.Assignment {
	return slices.SortedFunc(maps.Keys(sim.hosts[on].loaded), failover.Assignment.Compare)
}

// Turned implements [env.Follower].
func (sim *simulation) Turned(on int) {
	sim.now = sim.simulator.Now()
	s := &sim.hosts[on]
	down, gone := sim.simulator.Down(on)
	switch {
	case down && !s.down:
		s.down, s.since = true, sim.now
		if sim.result.Losses++; sim.result.Losses == 1 {
			sim.result.Exposed = sim.controller.Status().Unprotected
		}
		sim.settleOn(on)
		for _, k := range s.loads {
			sim.actions[k].ends = -1
		}
	case !down:
		s.down = false
		sim.resume(on)
	}
	if gone && !s.gone {
		s.gone = true
		sim.vanish(on)
	}
	sim.settleOn(on)
	sim.simulator.Rouse()
}

// vanish ends a host's process: nothing is loaded there any more, its agent's connection breaks, and
// so does what it was ordered to do.
func (sim *simulation) vanish(on int) {
	s := &sim.hosts[on]
	loads := s.loads
	s.loaded, s.loads = map[failover.Assignment]bool{}, nil
	if sim.Traffic && sim.Options.Heartbeat > 0 {
		sim.controller.Observe(control.Event{At: sim.now, Kind: control.Refused, Replica: -1, Host: on, Began: sim.now})
	}
	for _, k := range loads {
		a := &sim.actions[k]
		a.over = true
		sim.controller.Ended(a.Order, control.ActionFailed, "its agent's connection broke")
	}
}

// resume has a host that is back go on with what it was ordered to do, as if that had not advanced.
func (sim *simulation) resume(on int) {
	for _, k := range sim.hosts[on].loads {
		if a := &sim.actions[k]; a.began {
			sim.ends(k, a)
		}
	}
	sim.start(on)
}

// settleOn follows a change of a host for the clients that send there.
func (sim *simulation) settleOn(on int) {
	for i := range sim.apps {
		if a := &sim.apps[i]; a.target.Host == on {
			sim.settle(i)
		}
	}
}

// answers reports whether the assignment can answer.
func (sim *simulation) answers(a failover.Assignment) bool {
	if a == failover.Nowhere {
		return false
	}
	s := &sim.hosts[a.Host]
	return !s.down && s.loaded[a]
}
