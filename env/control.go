package env

import (
	"fmt"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
)

// World is what the controllers of an episode act on.
type World struct {
	Ledger   *fleet.Ledger
	Actuator control.Actuator
	// Seed is the episode's.
	Seed uint64
	// Fail ends the episode with an error, for what a controller was told to do and
	// cannot.
	Fail func(error)
}

// Evidence is how a failure becomes known where it is not known at once.
type Evidence struct {
	// Probe is how often each host is probed. It is above zero where evidence is asked for.
	Probe time.Duration
	// Connect is how long a request to a lost host takes to break. Zero is refused at once.
	Connect time.Duration
}

func (v Evidence) on() bool { return v.Probe > 0 }

// checkControl names what cannot be of the configuration of controllers.
func (c *Config) checkControl(fault func(format string, args ...any)) {
	if n := len(c.Table.Replicas); c.Initial != nil && len(c.Initial) != n || c.LoadTimes != nil && len(c.LoadTimes) != n || c.WakeTimes != nil && len(c.WakeTimes) != n {
		fault("%d initial states, %d load times and %d wake times for %d replicas", len(c.Initial), len(c.LoadTimes), len(c.WakeTimes), n)
	}
	if c.Evidence.Probe < 0 || c.Evidence.Connect < 0 {
		fault("probes each %v and connections that take %v; neither may be negative", c.Evidence.Probe, c.Evidence.Connect)
	}
	if c.Controllers != nil && c.Routers.Number > 1 {
		fault("controllers act on the ledger of one router, not on those of %d", c.Routers.Number)
	}
	if c.Evidence.on() && c.Controllers == nil {
		fault("evidence of failures needs a controller that makes something of it")
	}
}

// command begins the episode's controllers and the probes that some of them go by.
func (s *Simulator) command(c *Config, l *fleet.Ledger, seed uint64) {
	for _, l := range s.ledgers {
		for i, x := range s.stands {
			l.Place(i, x.is)
		}
	}
	if c.Controllers == nil {
		return
	}
	s.controllers = control.NewSet(c.Controllers(World{Ledger: l, Actuator: s, Seed: seed, Fail: func(err error) { s.fault = err }})...)
	for h := range s.hosts {
		if c.Evidence.on() { // one after the other, as a server's are
			s.agenda.add(item{at: c.Evidence.Probe * time.Duration(h) / time.Duration(len(s.hosts)), what: hostProbed, index: h})
		}
	}
}

// wakeDue is when the controllers are to be woken, if there are any.
func (s *Simulator) wakeDue() time.Duration {
	if s.controllers == nil {
		return control.Never
	}
	if next := s.controllers.Next(); next != control.Never {
		return max(next, s.now, s.reached) // answers are reported when all engines have got that far
	}
	return control.Never
}

// tell has the controllers observe an event on the replica.
func (s *Simulator) tell(e control.Event) {
	if s.controllers == nil {
		return
	}
	e.Host = s.place[e.Replica].host
	s.controllers.Observe(e)
}

// tellAnswers has the controllers observe the answers among outcomes.
func (s *Simulator) tellAnswers(outcomes []Outcome) {
	if s.controllers == nil {
		return
	}
	for i := range outcomes {
		o := &outcomes[i]
		s.tell(control.Event{At: o.Finished, Kind: control.Answered, Replica: o.Replica, Began: o.sent()})
	}
}

// probe asks each replica of a host whether it is well.
func (s *Simulator) probe(host int, at time.Duration) {
	for _, r := range s.table.ReplicasOn(host) {
		switch {
		case lost(s.losses, host, at):
			s.tell(control.Event{At: at, Kind: control.ProbeFailed, Replica: r, Reason: "nobody is there"})
		case s.stands[r].is == fleet.Up:
			s.tell(control.Event{At: at, Kind: control.ProbePassed, Replica: r})
		}
	}
	s.agenda.add(item{at: at + s.evidence.Probe, what: hostProbed, index: host})
}

// unreachable reports that no request gets through to the replica: its host is lost, and
// not everybody knows, or its engine does not run.
func (s *Simulator) unreachable(replica int, at time.Duration) bool {
	return s.stands[replica].is != fleet.Up || s.evidence.on() && lost(s.losses, s.place[replica].host, at)
}

// refuse has a request break that nothing takes.
func (s *Simulator) refuse(id uint64, replica int, now time.Duration) {
	if lost(s.losses, s.place[replica].host, now) {
		now += s.evidence.Connect
	}
	s.jobs[id].refused = true
	s.breaking++
	s.agenda.add(item{at: now, what: requestBreaks, index: int(id)})
}

// broken ends a request as failed at a time.
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
	s.pace.last(id, o)
	kind := control.Broken
	if j.refused {
		kind = control.Refused
	}
	s.tell(control.Event{At: at, Kind: kind, Replica: o.Replica, Began: o.sent()})
	return *o, nil
}
