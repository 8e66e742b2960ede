package env

import (
	"time"

	"gearshift/env/engine"
	"gearshift/router/fleet"
)

// Law says how a host works on the requests of its replicas. A slot is one of them, by its place
// in [fleet.Table.ReplicasOn]. An [engine.Host] works in steps of tokens or in batches, which its
// engines contend for; under [SharedHost] a host works on all requests at a time. Times never
// run back.
type Law interface {
	// Submit begins a request in a slot.
	Submit(slot int, s engine.Sequence, now time.Duration)
	// Next returns when something ends next, if nothing else comes; false if the host is idle.
	Next() (at time.Duration, ok bool)
	// Step ends what ends then, and appends it to dst.
	Step(dst []engine.Event) []engine.Event
	// Break drops at once what a slot has, or what all have if it is −1, and calls f for each
	// request in an order that repeats.
	Break(slot int, now time.Duration, f func(id uint64))
	// Each calls f for each request of a slot, with the tokens that it has generated.
	Each(slot int, f func(id uint64, generated int))
}

// Loader is a [Law] under which a load takes of what requests share: the host works on it beside
// them, and reports its end as [engine.Loaded].
type Loader interface {
	Load(slot int, work, now time.Duration)
}

// Delayer is a [Law] whose replicas may be slow to answer first, as engines are that compile kernels and
// capture graphs for the first request after a load or a wake.
type Delayer interface {
	// Delay makes the slot's next step longer by the time, once.
	Delay(slot int, by time.Duration)
}

// Turner is a [Law] that depends on which of its replicas run.
type Turner interface {
	// Turn follows the state of a slot. It is called at the start for each that is not cold, and at each change.
	// Those of a host that is lost are [fleet.Down].
	Turn(slot int, is fleet.State, now time.Duration)
}

// turn has the law of the replica's host follow its state.
func (s *Simulator) turn(replica int, is fleet.State) {
	p := s.locations[replica]
	if t, ok := s.laws[p.host].(Turner); ok {
		t.Turn(p.engine, is, s.now)
	}
}

// Follower follows requests that no ledger counts: those of clients that choose for themselves.
// It is called in the order of time, at which the simulator stands still.
type Follower interface {
	// Ended follows a request that has ended. An error ends the simulation.
	Ended(id uint64, at time.Duration) error
	// Broken follows one that was refused, or lost with its replica.
	Broken(id uint64, at time.Duration)
	// Turned follows that a host is lost, or back, or that a lost one's port refuses.
	Turned(host int)
	// Measure is called each [Config.Period], before controllers are woken.
	Measure(now time.Duration)
}

// Scheduled is a [Follower] that is called at times that it asks for by [Simulator.Schedule]. An error ends the
// simulation.
type Scheduled interface {
	Follower
	Due(x Item) error
}

// Follow makes an idle simulator one whose requests a follower begins and follows. The simulator
// makes the configuration's controllers, and writes into the ledger which replicas are lost. A follower of nil
// begins none: controllers alone act.
func (s *Simulator) Follow(c *Config, l *fleet.Ledger, seed uint64, f Follower) {
	s.follower = f
	s.join(l, nil)
	s.startControllers(c, l, seed)
	if s.period > 0 {
		s.agenda.Add(Item{At: s.period, Kind: loadsMeasured})
	}
}

// Schedule has the follower, which is [Scheduled], called with an item whose kind and index are its own. Items of
// one moment come in their order, after all that the simulator does then.
func (s *Simulator) Schedule(x Item) {
	x.Kind += followerDue
	s.agenda.Add(x)
	s.limit = min(s.limit, x.At)
}

// Next returns when something is due next, beside what hosts work on; false if nothing is.
func (s *Simulator) Next() (time.Duration, bool) {
	x, ok := s.due()
	return x.At, ok
}

// Begin submits a request of the follower's to a replica. The time is that until which the
// simulator has advanced.
func (s *Simulator) Begin(replica int, q engine.Sequence, now time.Duration) {
	s.now = now
	s.began++
	if s.unreachable(replica) {
		if s.down[s.locations[replica].host] > 0 {
			now += s.evidence.Connect
		}
		s.breakAt(q.ID, now)
		return
	}
	p := s.locations[replica]
	s.laws[p.host].Submit(p.engine, q, now)
	s.order.fix(p.host)
}

// Cancelled follows a request that the follower has taken off a host itself.
func (s *Simulator) Cancelled(host int) {
	s.ended++
	s.order.fix(host)
}

// Changed follows a host on which the follower has changed something else than its requests.
func (s *Simulator) Changed(host int) { s.order.fix(host) }

// Dismiss ends what controllers do, and what is measured. The requests that are under way end.
func (s *Simulator) Dismiss() { s.controllers, s.period = nil, 0 }

// runSteps is runEngines for a follower, which may act on other hosts as a request ends: events
// come one at a time, in order across the hosts. It returns once controllers are due.
func (s *Simulator) runSteps(until time.Duration) error {
	for at, ok := s.order.first(); ok && at <= until; at, ok = s.order.first() {
		h := s.order.top()
		s.now = at
		s.event = s.laws[h].Step(s.event[:0])
		for i := range s.event {
			e := &s.event[i]
			switch e.Kind {
			case engine.Finished:
				s.ended++
				if err := s.follower.Ended(e.ID, e.At); err != nil {
					return err
				}
			case engine.Loaded:
				s.complete(s.table.ReplicasOn(h)[e.Engine], e.At)
				until = min(until, s.wakeDue())
			}
		}
		s.order.fix(h)
	}
	return nil
}
