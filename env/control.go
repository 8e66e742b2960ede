package env

import (
	"fmt"
	"time"

	"gearshift/internal/faults"
	"gearshift/internal/splitmix"
	"gearshift/router/control"
	"gearshift/router/fleet"
)

// ControlAccess is what the controllers of an episode read and act through.
type ControlAccess struct {
	Ledger   *fleet.Ledger
	Actuator control.Actuator
	// Seed is the episode's.
	Seed uint64
	// Fail ends the episode with an error. A controller calls it if it cannot carry out its
	// configuration.
	Fail func(error)
	// Ask has a host say whether it is there: what it says is observed before Ask returns. A lost host
	// that leaves connections unanswered says nothing.
	Ask func(host int)
	// Rouse has the controllers woken again at this moment, once all have been.
	Rouse func()
	// Takes returns how long a load of a replica takes, or a wake.
	Takes func(replica int, wake bool) time.Duration
}

// Watcher is a controller that follows how requests end, besides the events. An outcome is valid
// until the call returns.
type Watcher interface{ Ended(o *Outcome) }

// Count is how often a controller has done something in an episode, by what it is called: "host lost".
type Count struct {
	Name string
	N    int
}

// Counter is a controller that counts what it does.
type Counter interface{ Counts() []Count }

// Registrar is a controller that hears of each host as it begins: at the start, and when it is back from a loss,
// with the replicas that it has.
type Registrar interface {
	Registered(host int, there func(replica int) bool, now time.Duration)
}

// Hider is a controller that hides replicas from a request's decision, as [fleet.Request.Without] does.
type Hider interface{ Hide(r *fleet.Request) []int }

// Evidence sets how a failure becomes known where it is not known at once.
type Evidence struct {
	// Probe is how often each host is probed. It is zero where only heartbeats come.
	Probe time.Duration
	// Connect is how long a request to a lost host takes to break. Zero is refused at once.
	Connect time.Duration
	// Heartbeat is how often each host reports by itself. Zero is never.
	Heartbeat time.Duration
}

func (v Evidence) on() bool { return v.Probe > 0 || v.Heartbeat > 0 }

// checkControl reports each setting of the controllers that cannot hold.
func (c *Config) checkControl(found *faults.List) {
	n := len(c.Table.Replicas)
	found.If(c.Initial != nil && len(c.Initial) != n || c.LoadTimes != nil && len(c.LoadTimes) != n || c.WakeTimes != nil && len(c.WakeTimes) != n,
		"%d initial states, %d load times and %d wake times for %d replicas", len(c.Initial), len(c.LoadTimes), len(c.WakeTimes), n)
	found.If(c.Evidence.Probe < 0 || c.Evidence.Connect < 0, "probes each %v and connections that take %v; neither may be negative", c.Evidence.Probe, c.Evidence.Connect)
	found.If(c.Evidence.Heartbeat < 0, "heartbeats each %v; want none below 0", c.Evidence.Heartbeat)
	found.If(c.Controllers != nil && c.Routers.Number > 1, "controllers act on the ledger of one router, not on those of %d", c.Routers.Number)
	found.If(c.Evidence.on() && c.Controllers == nil, "evidence of failures needs a controller that acts on it")
}

// startControllers makes the episode's controllers, and schedules the probes that some of
// them use.
func (s *Simulator) startControllers(c *Config, l *fleet.Ledger, seed uint64) {
	for _, l := range s.ledgers {
		for i, x := range s.engineStates {
			l.Place(i, x.is)
		}
	}
	if c.Controllers == nil {
		return
	}
	list := c.Controllers(ControlAccess{
		Ledger: l, Actuator: s, Seed: seed, Fail: s.Fail,
		Ask: s.Ask, Rouse: s.Rouse, Takes: s.takes,
	})
	s.controllers = control.NewSet(list...)
	for _, x := range list {
		if r, ok := x.(Registrar); ok {
			s.registrars = append(s.registrars, r)
		}
		if c, ok := x.(Counter); ok {
			s.counters = append(s.counters, c)
		}
		if w, ok := x.(Watcher); ok {
			s.watchers = append(s.watchers, w)
		}
		if h, ok := x.(Hider); ok {
			s.hiders = append(s.hiders, h)
		}
	}
	for h := range s.laws {
		if every := c.Evidence.Heartbeat; every > 0 { // at a phase of its own
			s.beaten[h] = time.Duration(splitmix.Unit(splitmix.Mix(seed+uint64(h)))*float64(every)) - every
		}
		s.register(h)
		if c.Evidence.Probe > 0 { // one after the other, as a server's are
			s.agenda.Add(Item{At: c.Evidence.Probe * time.Duration(h) / time.Duration(len(s.laws)), Kind: hostProbed, Index: h})
		}
	}
}

// takes returns how long a load or a wake takes.
func (s *Simulator) takes(replica int, wake bool) time.Duration {
	x := &s.actions[replica]
	if wake {
		return x.wake + x.first
	}
	return x.load + x.first
}

// wakeDue returns when the controllers are to be woken; control.Never if there are none.
func (s *Simulator) wakeDue() time.Duration {
	if s.controllers == nil {
		return control.Never
	}
	if next := s.controllers.Next(); next != control.Never {
		return max(next, s.now, s.reached) // answers are reported when all engines have got that far
	}
	return control.Never
}

// observe reports an event on the replica to the controllers.
func (s *Simulator) observe(e control.Event) {
	if s.controllers == nil {
		return
	}
	if e.Replica >= 0 {
		e.Host = s.locations[e.Replica].host
	}
	s.controllers.Observe(e)
}

// observeAnswers reports the outcomes to the controllers as answers.
func (s *Simulator) observeAnswers(outcomes []Outcome) {
	if s.controllers == nil {
		return
	}
	for i := range outcomes {
		o := &outcomes[i]
		if o.Refused != "" { // of a job
			continue
		}
		s.observe(control.Event{At: o.Finished, Kind: control.Answered, Replica: o.Replica, Began: o.sent()})
		s.tell(o)
	}
}

// Rouse has the controllers woken again at this moment.
func (s *Simulator) Rouse() {
	if s.controllers != nil { // else they are being made
		s.controllers.Rouse(s.now)
	}
}

// register has the controllers hear of a host that begins.
func (s *Simulator) register(host int) {
	for _, r := range s.registrars {
		r.Registered(host, func(replica int) bool { return s.engineStates[replica].is == fleet.Up }, s.now)
		s.Rouse()
	}
}

// tell has the controllers that follow outcomes follow one.
func (s *Simulator) tell(o *Outcome) {
	for _, w := range s.watchers {
		w.Ended(o)
	}
}

// Counts lists what the controllers of the episode have done so far.
func (e *Environment) Counts() (list []Count) {
	for _, c := range e.sim.counters {
		list = append(list, c.Counts()...)
	}
	return list
}

// hide lists the replicas that controllers hide from a request.
func (s *Simulator) hide(r *fleet.Request) (list []int) {
	for _, h := range s.hiders {
		list = append(list, h.Hide(r)...)
	}
	return list
}

// beat reports the last heartbeats that have come: those before them would change nothing.
func (s *Simulator) beat() {
	every := s.evidence.Heartbeat
	if every == 0 || s.controllers == nil {
		return
	}
	for h := range s.laws {
		since := s.now - s.beaten[h]
		if since < every || s.down[h] > 0 {
			continue
		}
		s.beaten[h] += since / every * every
		s.controllers.Note(control.Event{At: s.beaten[h], Kind: control.Heartbeat, Replica: -1, Host: h})
	}
}

// Fail ends the simulation with an error.
func (s *Simulator) Fail(err error) { s.fault = err }

// Ask has a host say whether it is there; see [ControlAccess].
func (s *Simulator) Ask(host int) {
	e := control.Event{At: s.now, Kind: control.ProbePassed, Replica: -1, Host: host, Began: s.now}
	if s.down[host] > 0 {
		if s.evidence.Connect > 0 || !s.gone[host] {
			return
		}
		e.Kind = control.Refused
	}
	s.observe(e)
}

// probe probes each replica of a host and reports the results to the controllers.
func (s *Simulator) probe(host int, at time.Duration) {
	for _, r := range s.table.ReplicasOn(host) {
		switch {
		case s.down[host] > 0:
			s.observe(control.Event{At: at, Kind: control.ProbeFailed, Replica: r, Reason: "the host is lost"})
		case s.engineStates[r].is == fleet.Up:
			s.observe(control.Event{At: at, Kind: control.ProbePassed, Replica: r})
		}
	}
	s.agenda.Add(Item{At: at + s.evidence.Probe, Kind: hostProbed, Index: host})
}

// unreachable reports whether no request gets through to the replica: its engine does not
// run, or its host is lost and the routers may not know that yet.
func (s *Simulator) unreachable(replica int) bool {
	return s.engineStates[replica].is != fleet.Up || s.evidence.on() && s.down[s.locations[replica].host] > 0
}

// refuse makes a request break that its replica does not take: at once, or on a lost host
// after the time that a connection takes to fail.
func (s *Simulator) refuse(id uint64, replica int, now time.Duration) {
	if s.down[s.locations[replica].host] > 0 {
		now += s.evidence.Connect
	}
	s.jobs[id].refused = true
	s.breakAt(id, now)
}

// broken ends a request as failed at a time, and returns its outcome.
func (s *Simulator) broken(id uint64, at time.Duration) (Outcome, error) {
	j := &s.jobs[id]
	o := &j.outcome
	if !j.lease.End() {
		return *o, fmt.Errorf("decision %d ended twice", o.Decision)
	}
	j.lease.Settle(1)
	s.ended++
	s.free = append(s.free, id)
	o.Failed, o.Finished = true, at
	if o.FirstToken == 0 {
		o.FirstToken = at
	}
	s.drift.last(id, o)
	kind := control.Broken
	if j.refused {
		kind = control.Refused
	}
	s.observe(control.Event{At: at, Kind: kind, Replica: o.Replica, Began: o.sent()})
	s.tell(o)
	return *o, nil
}
