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

	"gearshift/env/agenda"
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
	// does. Without it heartbeats are all that the controller sees.
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
}

// The kinds of items on the agenda, in the order of equal times.
const (
	serverLost agenda.Kind = iota
	serverBack
	actionEnds
	clientsSwitch
	clientSends
	controllerWakes
)

// world is a run.
type world struct {
	Config
	agenda     agenda.Agenda
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
	w, err := newWorld(c)
	if err != nil {
		return nil, err
	}
	for w.fault == nil && w.advance() {
	}
	if w.fault != nil {
		return nil, fmt.Errorf("cannot simulate at %v: %w", w.now, w.fault)
	}
	w.end()
	return w.result, nil
}

func newWorld(c Config) (*world, error) {
	c.System = copyOf(c.System)
	c.Patience = cmp.Or(c.Patience, 30*time.Second)
	w := &world{Config: c, result: &Result{Length: c.Length}, latest: map[int]spot{}}
	o := c.Options
	o.Report = w.step
	var err error
	if w.controller, err = failover.New(c.System, o, w); err != nil {
		return nil, err
	}
	w.Config.Options.Heartbeat = cmp.Or(o.Heartbeat, failover.DefaultOptions().Heartbeat)
	w.Config.Options.Loaders = cmp.Or(o.Loaders, failover.DefaultOptions().Loaders)
	random := rand.New(rand.NewPCG(splitmix.Mix(c.Seed), 1))
	for range c.System.Servers {
		w.servers = append(w.servers, server{incarnation: 1, beaten: -1, loaded: map[int]bool{}, phase: time.Duration(random.Int64N(int64(w.Config.Options.Heartbeat)))})
	}
	status := w.controller.Status()
	for i := range status.Applications {
		x := application{target: status.Applications[i].Active, next: status.Applications[i].Active, failed: -1, random: rand.New(rand.NewPCG(splitmix.Mix(c.Seed), 2+uint64(i)))}
		if x.target >= 0 {
			_, _, s := c.System.Of(x.target)
			w.servers[s].loaded[x.target], x.ok = true, true
		}
		w.apps = append(w.apps, x)
		w.draw(i)
	}
	for s := range w.servers {
		w.controller.Heard(s, 1, w.held(s), 0)
	}
	for i, l := range c.Losses {
		if l.Server < 0 || l.Server >= len(w.servers) || l.To != 0 && l.To <= l.From || l.From < 0 {
			return nil, fmt.Errorf("loss %d: server %d from %v to %v; want one of %d servers, and a time after", i, l.Server, l.From, l.To, len(w.servers))
		}
		w.agenda.Add(agenda.Item{At: l.From, Kind: serverLost, Index: i})
		if l.To > 0 {
			w.agenda.Add(agenda.Item{At: l.To, Kind: serverBack, Index: i})
		}
	}
	return w, nil
}

// copyOf returns a system that a run may complete.
func copyOf(s *failover.System) *failover.System {
	return &failover.System{Resources: s.Resources, Servers: s.Servers, Applications: slices.Clone(s.Applications), Shared: s.Shared}
}

// held lists the instances that are loaded on a server.
func (w *world) held(s int) (list []int) {
	for id := range w.servers[s].loaded {
		list = append(list, id)
	}
	slices.Sort(list)
	return list
}

// advance carries out what is due next; false if the run is over.
func (w *world) advance() bool {
	x, ok := w.agenda.First()
	wake := agenda.Item{At: max(w.wakes, w.now), Kind: controllerWakes}
	if w.wakes != control.Never && (!ok || wake.Before(x)) {
		x, ok = wake, true
	} else if ok {
		w.agenda.Take()
	}
	if !ok || x.At > w.Length {
		return false
	}
	w.now = max(w.now, x.At)
	w.beat()
	switch x.Kind {
	case serverLost:
		w.lose(&w.Losses[x.Index])
	case serverBack:
		w.restore(&w.Losses[x.Index])
	case actionEnds:
		w.complete(x.Index)
	case clientsSwitch:
		w.switchTo(x.Index)
	case clientSends:
		w.send(x.Index)
	}
	w.wake()
	return w.fault == nil
}

// beat reports the heartbeats that have come. Those between two items would change nothing but
// when the controller heard of a server last, so that the last alone is reported.
func (w *world) beat() {
	every := w.Options.Heartbeat
	for i := range w.servers {
		s := &w.servers[i]
		if s.down > 0 || every < 0 || w.now < s.phase {
			continue
		}
		if at := s.phase + (w.now-s.phase)/every*every; at > s.beaten {
			s.beaten = at
			w.controller.Observe(control.Event{At: at, Kind: control.Heartbeat, Replica: -1, Host: i})
		}
	}
}

func (w *world) wake() {
	w.wakes = max(w.controller.Wake(w.now), w.now+1)
	if w.Check && w.stepped && w.fault == nil {
		w.fault = w.check()
	}
	w.stepped = false
}

// observe reports an event of an instance.
func (w *world) observe(kind control.Kind, a *action, why string) {
	w.controller.Observe(control.Event{At: w.now, Kind: kind, Replica: a.Replica, Host: a.server, Action: a.Action, Reason: why})
}

// lose carries out a loss.
func (w *world) lose(l *Loss) {
	s := &w.servers[l.Server]
	if s.down++; s.down > 1 {
		s.silent = s.silent && l.Silent
	} else {
		s.silent, s.since = l.Silent, w.now
		if w.result.Losses++; w.result.Losses == 1 {
			w.result.Exposed = w.controller.Status().Unprotected
		}
	}
	loads := s.loads
	if !s.silent {
		s.loaded, s.loads = map[int]bool{}, nil
	}
	for i := range w.apps {
		if a := &w.apps[i]; a.target >= 0 && w.serverOf(a.target) == l.Server {
			w.settle(i)
		}
	}
	for _, k := range loads {
		a := &w.actions[k]
		if a.ends = -1; !s.silent {
			a.over = true
			w.observe(control.ActionFailed, a, "its agent's connection broke")
		}
	}
}

// restore ends a loss.
func (w *world) restore(l *Loss) {
	s := &w.servers[l.Server]
	if s.down--; s.down > 0 {
		return
	}
	s.phase, s.beaten = w.now, -1
	if s.silent {
		for _, k := range s.loads { // which begin again, as if they had not advanced
			if a := &w.actions[k]; a.began {
				w.schedule(k, a)
			}
		}
		w.begin(l.Server)
	} else {
		s.incarnation++
		w.controller.Heard(l.Server, s.incarnation, nil, w.now)
	}
	for i := range w.apps {
		if a := &w.apps[i]; a.target >= 0 && w.serverOf(a.target) == l.Server {
			w.settle(i)
		}
	}
}

func (w *world) serverOf(instance int) int {
	_, _, s := w.System.Of(instance)
	return s
}

// answers reports whether the instance can answer.
func (w *world) answers(instance int) bool {
	if instance < 0 {
		return false
	}
	s := &w.servers[w.serverOf(instance)]
	return s.down == 0 && s.loaded[instance]
}

// latency is how long an answer of the instance takes.
func (w *world) latency(instance int) time.Duration {
	app, variant, _ := w.System.Of(instance)
	return time.Duration(w.System.Applications[app].Variants[variant].LatencyMS * float64(time.Millisecond))
}
