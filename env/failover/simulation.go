// Package failover simulates servers that die and return, agents that report, loads that take
// their time, and clients at their rates, around the controller of router/failover that a server
// runs too. Time is virtual, and a run repeats exactly.
//
// Requests are not routed here: an application's clients send to the instance that answers it,
// and each answer takes what the variant takes alone.
package failover

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"gearshift/env"
	"gearshift/internal/splitmix"
	"gearshift/router/control"
	"gearshift/router/failover"
)

// Config is what is simulated.
type Config struct {
	// System is copied for each run, since a controller completes its own.
	System *failover.System
	// Options are the controller's. Report is called with its steps too.
	Options failover.Options
	Losses  []Loss
	// Length is when the run ends.
	Length time.Duration
	Seed   uint64
	// Switch is how long clients go on to send nothing after an instance has been activated in place
	// of one that was lost. Those of an instance that is swapped notice nothing.
	Switch time.Duration
	// Traffic reports connections that are refused, and requests that break, to the controller, as a router
	// does, the connection of an agent whose process is gone among them, and answers it where it asks a
	// server that it suspects. Without it heartbeats are all that the controller sees.
	Traffic bool
	// Patience is how long a client waits for an answer. Zero is 30 s.
	Patience time.Duration
	// Check has the state of the controller compared with the world after each step.
	Check bool
}

// Loss is the loss of a server for some time.
type Loss struct {
	Server int
	// From and To are times since the run began. A To of zero is never.
	From, To time.Duration
	// Silent is a loss without a sign: nothing is refused, and what was loaded still is at the
	// return. Otherwise the process is gone, its port refuses, and at the return nothing is loaded.
	Silent bool
	// Refuses is how long after From its port does: a system gives the memory of a process that is
	// killed back before it closes its connections.
	Refuses time.Duration
}

// Once is the loss of servers for good, all at one time: within a second after the first minute, so that it
// falls anywhere between two heartbeats or sweeps.
func Once(seed uint64, silent bool, servers ...int) (losses []Loss) {
	at := time.Minute + time.Duration(splitmix.Unit(splitmix.Mix(seed+uint64(servers[0])))*float64(time.Second))
	for _, s := range servers {
		losses = append(losses, Loss{Server: s, From: at, Silent: silent})
	}
	return losses
}

// The kinds of items on the agenda, in the order of equal times.
const (
	serverLost env.ItemKind = iota
	serverRefuses
	serverBack
	actionEnds
	clientsSwitch
	clientSends
	controllerWakes
)

// simulation is a run.
type simulation struct {
	Config
	agenda     env.Agenda
	controller *failover.Controller
	now        time.Duration
	wakes      time.Duration // when the controller is to be woken
	servers    []server
	apps       []application
	actions    []action
	newest     uint64 // epoch
	result     *Result
	latest     map[int]spot // by application
	number     int          // of the last failover
	stepped    bool         // the controller has, since the last check
	fault      error
}

// server is the truth of one.
type server struct {
	down        int           // losses under way
	since       time.Duration // of the first of them
	silent      bool
	incarnation uint64
	beaten      time.Duration // the last heartbeat that the controller was told of; −1: none
	loaded      map[int]bool
	loads       []int // actions under way, the first few of them running
	phase       time.Duration
}

// action is a load or an unload under way.
type action struct {
	control.Action
	server int
	began  bool
	ends   time.Duration // −1: not in the near future, its server stands still
	over   bool
}

// Run plays the losses.
func Run(c Config) (*Result, error) {
	sim, err := newSimulation(c)
	if err != nil {
		return nil, err
	}
	for sim.fault == nil && sim.advance() {
	}
	if sim.fault != nil {
		return nil, fmt.Errorf("cannot simulate at %v: %w", sim.now, sim.fault)
	}
	sim.end()
	return sim.result, nil
}

func newSimulation(c Config) (*simulation, error) {
	c.System = copyOf(c.System)
	c.Patience = cmp.Or(c.Patience, 30*time.Second)
	sim := &simulation{Config: c, result: &Result{Length: c.Length}, latest: map[int]spot{}}
	o := c.Options
	o.Report = sim.step
	if c.Traffic {
		o.Ask = sim.ask
	}
	var err error
	if sim.controller, err = failover.New(c.System, o, sim); err != nil {
		return nil, err
	}
	sim.Config.Options.Heartbeat = cmp.Or(o.Heartbeat, failover.DefaultOptions().Heartbeat)
	sim.Config.Options.Loaders = cmp.Or(o.Loaders, failover.DefaultOptions().Loaders)
	random := rand.New(rand.NewPCG(splitmix.Mix(c.Seed), 1))
	for range c.System.Servers {
		sim.servers = append(sim.servers, server{incarnation: 1, beaten: -1, loaded: map[int]bool{}, phase: time.Duration(random.Int64N(int64(sim.Config.Options.Heartbeat)))})
	}
	status := sim.controller.Status()
	for i := range status.Applications {
		x := application{target: status.Applications[i].Active, next: status.Applications[i].Active, failed: -1, random: rand.New(rand.NewPCG(splitmix.Mix(c.Seed), 2+uint64(i)))}
		if x.target >= 0 {
			_, _, s := c.System.Of(x.target)
			sim.servers[s].loaded[x.target], x.ok = true, true
		}
		sim.apps = append(sim.apps, x)
		sim.draw(i)
	}
	for s := range sim.servers {
		sim.controller.Heard(s, 1, sim.held(s), 0)
	}
	for i, l := range c.Losses {
		if l.Server < 0 || l.Server >= len(sim.servers) || l.To != 0 && l.To <= l.From || l.From < 0 {
			return nil, fmt.Errorf("loss %d: server %d from %v to %v; want one of %d servers, and a time after", i, l.Server, l.From, l.To, len(sim.servers))
		}
		sim.agenda.Add(env.Item{At: l.From, Kind: serverLost, Index: i})
		if l.Refuses > 0 && !l.Silent {
			sim.agenda.Add(env.Item{At: l.From + l.Refuses, Kind: serverRefuses, Index: i})
		}
		if l.To > 0 {
			sim.agenda.Add(env.Item{At: l.To, Kind: serverBack, Index: i})
		}
	}
	return sim, nil
}

// copyOf returns a system that a run may complete.
func copyOf(s *failover.System) *failover.System {
	return &failover.System{Resources: s.Resources, Servers: s.Servers, Applications: slices.Clone(s.Applications), Shared: s.Shared}
}

// held lists the instances that are loaded on a server.
func (sim *simulation) held(s int) (list []int) {
	for id := range sim.servers[s].loaded {
		list = append(list, id)
	}
	slices.Sort(list)
	return list
}

// advance carries out what is due next; false if the run is over.
func (sim *simulation) advance() bool {
	x, ok := sim.agenda.First()
	wake := env.Item{At: max(sim.wakes, sim.now), Kind: controllerWakes}
	if sim.wakes != control.Never && (!ok || wake.Before(x)) {
		x, ok = wake, true
	} else if ok {
		sim.agenda.Take()
	}
	if !ok || x.At > sim.Length {
		return false
	}
	sim.now = max(sim.now, x.At)
	sim.beat()
	switch x.Kind {
	case serverLost:
		sim.lose(&sim.Losses[x.Index])
	case serverRefuses:
		sim.refuse(&sim.Losses[x.Index])
	case serverBack:
		sim.restore(&sim.Losses[x.Index])
	case actionEnds:
		sim.complete(x.Index)
	case clientsSwitch:
		sim.switchTo(x.Index)
	case clientSends:
		sim.send(x.Index)
	}
	sim.wake()
	return sim.fault == nil
}

// beat reports the heartbeats that have come. Those between two items would change nothing but
// when the controller heard of a server last, so that the last alone is reported.
func (sim *simulation) beat() {
	every := sim.Options.Heartbeat
	for i := range sim.servers {
		s := &sim.servers[i]
		if s.down > 0 || every < 0 || sim.now < s.phase {
			continue
		}
		if at := s.phase + (sim.now-s.phase)/every*every; at > s.beaten {
			s.beaten = at
			sim.controller.Observe(control.Event{At: at, Kind: control.Heartbeat, Replica: -1, Host: i})
		}
	}
}

// ask answers the controller, which suspects a server: a process that is gone refuses, and one that stands
// still does not answer.
func (sim *simulation) ask(i int) {
	if s := &sim.servers[i]; s.down == 0 || !s.silent {
		kind := control.ProbePassed
		if s.down > 0 {
			kind = control.Refused
		}
		sim.controller.Observe(control.Event{At: sim.now, Kind: kind, Replica: -1, Host: i, Began: sim.now})
	}
}

func (sim *simulation) wake() {
	sim.wakes = max(sim.controller.Wake(sim.now), sim.now+1)
	if sim.Check && sim.stepped && sim.fault == nil {
		sim.fault = sim.check()
	}
	sim.stepped = false
}

// observe reports an event of an instance.
func (sim *simulation) observe(kind control.Kind, a *action, why string) {
	sim.controller.Observe(control.Event{At: sim.now, Kind: kind, Replica: a.Replica, Host: a.server, Action: a.Action, Reason: why})
}

// lose carries out a loss.
func (sim *simulation) lose(l *Loss) {
	s := &sim.servers[l.Server]
	if s.down++; s.down > 1 {
		s.silent = s.silent && l.silentAtFirst()
	} else {
		s.silent, s.since = l.silentAtFirst(), sim.now
		if sim.result.Losses++; sim.result.Losses == 1 {
			sim.result.Exposed = sim.controller.Status().Unprotected
		}
	}
	sim.settleOn(l.Server)
	for _, k := range s.loads {
		sim.actions[k].ends = -1
	}
	if !s.silent {
		sim.vanish(l.Server)
	}
}

// silentAtFirst reports whether a loss begins without a sign.
func (l *Loss) silentAtFirst() bool { return l.Silent || l.Refuses > 0 }

// refuse has a server refuse that was silent so far, unless it is back.
func (sim *simulation) refuse(l *Loss) {
	if s := &sim.servers[l.Server]; s.down > 0 && s.silent {
		s.silent = false
		sim.vanish(l.Server)
		sim.settleOn(l.Server)
	}
}

// vanish ends a server's process: nothing is loaded there any more, its agent's connection breaks, and
// so does what it was ordered to do.
func (sim *simulation) vanish(on int) {
	s := &sim.servers[on]
	loads := s.loads
	s.loaded, s.loads = map[int]bool{}, nil
	if sim.Traffic && sim.Options.Heartbeat > 0 {
		sim.controller.Observe(control.Event{At: sim.now, Kind: control.Refused, Replica: -1, Host: on, Began: sim.now})
	}
	for _, k := range loads {
		a := &sim.actions[k]
		a.over = true
		sim.observe(control.ActionFailed, a, "its agent's connection broke")
	}
}

// settleOn follows a change of a server for the clients that send there.
func (sim *simulation) settleOn(on int) {
	for i := range sim.apps {
		if a := &sim.apps[i]; a.target >= 0 && sim.serverOf(a.target) == on {
			sim.settle(i)
		}
	}
}

// restore ends a loss.
func (sim *simulation) restore(l *Loss) {
	s := &sim.servers[l.Server]
	if s.down--; s.down > 0 {
		return
	}
	s.phase, s.beaten = sim.now, -1
	if s.silent {
		for _, k := range s.loads { // which begin again, as if they had not advanced
			if a := &sim.actions[k]; a.began {
				sim.schedule(k, a)
			}
		}
		sim.begin(l.Server)
	} else {
		s.incarnation++
		sim.controller.Heard(l.Server, s.incarnation, nil, sim.now)
	}
	sim.settleOn(l.Server)
}

func (sim *simulation) serverOf(instance int) int {
	_, _, s := sim.System.Of(instance)
	return s
}

// answers reports whether the instance can answer.
func (sim *simulation) answers(instance int) bool {
	if instance < 0 {
		return false
	}
	s := &sim.servers[sim.serverOf(instance)]
	return s.down == 0 && s.loaded[instance]
}

// latency is how long an answer of the instance takes.
func (sim *simulation) latency(instance int) time.Duration {
	app, variant, _ := sim.System.Of(instance)
	return time.Duration(sim.System.Applications[app].Variants[variant].LatencyMS * float64(time.Millisecond))
}
