package env

import (
	"fmt"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
)

// engineState is the true state of a replica's engine. The ledger may say something else,
// since routers learn of failures late.
type engineState struct {
	is     fleet.State // Up: it runs. Cold, Loading or Warm: it does not
	acting bool
	action control.Action // the last one
	seen   uint64         // the latest epoch of an action
}

// DefaultLoad is how long a load takes where neither the configuration nor the model has a
// time for it.
const DefaultLoad = 10 * time.Second

// actionTimes holds the durations of the actions on a replica's engine, and the time that its first step
// after a load or a wake takes in addition.
type actionTimes struct{ load, sleep, wake, first time.Duration }

// actionTimes returns the times of each replica.
func (c *Config) actionTimes() []actionTimes {
	times := make([]actionTimes, len(c.Table.Replicas))
	for i, r := range c.Table.Replicas {
		var m fleet.Model
		if k := c.Table.ModelOf(r.Variant); k >= 0 {
			m = c.Table.Models[k]
		}
		warm := time.Duration(0)
		if c.WarmUp {
			warm, m.FirstAnswer = m.FirstAnswer, 0
		}
		switch {
		case m.Load > 0:
		case c.LoadTimes != nil:
			m.Load = c.LoadTimes[i]
		default:
			m.Load = DefaultLoad
		}
		if c.WakeTimes != nil {
			times[i] = actionTimes{m.Load + warm, c.WakeTimes[i], c.WakeTimes[i] + warm, m.FirstAnswer}
		} else {
			times[i] = actionTimes{m.Load + warm, m.SleepTime(), m.WakeTime() + warm, m.FirstAnswer}
		}
	}
	return times
}

// Act implements [control.Actuator]. It begins the action; the controllers observe its end
// after the time that it takes. It refuses an action of an older epoch than one that it has
// seen, on a host that is lost, or on a replica with an action under way.
func (s *Simulator) Act(a control.Action) error {
	if a.Replica < 0 || a.Replica >= len(s.engineStates) {
		return fmt.Errorf("there is no replica %d: the fleet has %d, counted from 0", a.Replica, len(s.engineStates))
	}
	x, name := &s.engineStates[a.Replica], s.table.Replicas[a.Replica].Name
	switch host := s.locations[a.Replica].host; {
	case a.Epoch < x.seen:
		return fmt.Errorf("cannot %v %s: the order is of epoch %d, and one of %d came before it", a.Verb, name, a.Epoch, x.seen)
	case s.down[host] > 0:
		return fmt.Errorf("cannot %v %s: host %s cannot be reached", a.Verb, name, s.table.Hosts[host].Name)
	case x.acting:
		return fmt.Errorf("cannot %v %s: %v is under way there", a.Verb, name, x.action.Verb)
	}
	takes, err := s.begin(a)
	if err != nil {
		return fmt.Errorf("cannot %v %s: %w", a.Verb, name, err)
	}
	s.turn(a.Replica, x.is)
	x.acting, x.action, x.seen = true, a, a.Epoch
	s.agenda.Add(Item{At: s.now + takes, Kind: actionEnds, Index: a.Replica})
	return nil
}

// begin changes the engine's state for the action, and returns how long the action takes.
func (s *Simulator) begin(a control.Action) (time.Duration, error) {
	x := &s.engineStates[a.Replica]
	if a.Verb == control.Load && x.is == fleet.Cold || a.Verb == control.Wake && x.is == fleet.Warm {
		if lack := s.lack(a.Replica); lack > 0 {
			return 0, fmt.Errorf("its host lacks %d bytes of memory", lack)
		}
	}
	switch {
	case a.Verb == control.Load && x.is == fleet.Cold:
		x.is = fleet.Loading
		return s.actions[a.Replica].load, nil
	case a.Verb == control.Wake && x.is == fleet.Warm:
		x.is = fleet.Loading
		return s.actions[a.Replica].wake, nil
	case a.Verb == control.Sleep && x.is == fleet.Up:
		x.is = fleet.Warm
		s.stop(a.Replica)
		return s.actions[a.Replica].sleep, nil
	case a.Verb == control.Unload && (x.is == fleet.Up || x.is == fleet.Warm):
		x.is = fleet.Cold
		s.stop(a.Replica)
		return 0, nil
	case a.Verb > control.Wake:
		return 0, fmt.Errorf("simulated engines know load, unload, sleep and wake alone")
	}
	return 0, fmt.Errorf("it is %v", x.is)
}

// lack returns how many bytes of memory the replica's host is short of to load or wake it;
// zero where the table does not say how much the host has.
func (s *Simulator) lack(replica int) int64 {
	host := s.locations[replica].host
	if s.table.Hosts[host].Memory == 0 {
		return 0
	}
	return max(0, s.Taken(host)+s.table.MemoryOf(replica)-s.table.Hosts[host].Memory)
}

// Taken returns how many bytes of a host's memory its replicas take. One that sleeps takes
// none, which is also what the lifecycle's controller assumes by default.
func (s *Simulator) Taken(host int) (taken int64) {
	for _, r := range s.table.ReplicasOn(host) {
		if is := s.engineStates[r].is; is != fleet.Cold && is != fleet.Warm {
			taken += s.table.MemoryOf(r)
		}
	}
	return taken
}

// breakAt has a request break at a time.
func (s *Simulator) breakAt(id uint64, at time.Duration) {
	s.breaking++
	s.agenda.Add(Item{At: at, Kind: requestBreaks, Index: int(id)})
}

// stop breaks at once all requests that wait or run on the replica's engine.
func (s *Simulator) stop(replica int) {
	p := s.locations[replica]
	s.laws[p.host].Break(p.engine, s.now, func(id uint64) { s.breakAt(id, s.now) })
	s.order.fix(p.host)
	s.marginal.revise(s, p.host)
	s.difference.lose(p.host)
}

// proceed goes on with the action under way on a replica, whose time is over. A load may take
// work of its host in addition.
func (s *Simulator) proceed(replica int, at time.Duration) {
	p := s.locations[replica]
	if s.engineStates[replica].action.Verb == control.Load && s.loadWork != nil && s.loadWork[replica] > 0 {
		s.laws[p.host].(Loader).Load(p.engine, s.loadWork[replica], at)
		s.order.fix(p.host)
		return
	}
	s.complete(replica, at)
}

// complete ends the action under way on a replica, and reports it to the controllers.
func (s *Simulator) complete(replica int, at time.Duration) {
	x := &s.engineStates[replica]
	x.acting, x.is = false, x.action.Verb.State()
	if first := s.actions[replica].first; first > 0 && x.is == fleet.Up {
		if d, ok := s.laws[s.locations[replica].host].(Delayer); ok {
			d.Delay(s.locations[replica].engine, first)
		}
	}
	s.turn(replica, x.is)
	s.observe(control.Event{At: at, Kind: x.action.Verb.Done(), Replica: replica, Action: x.action})
}

// powerOff changes the engines of a host that is lost. Those that loaded or slept become
// cold, and stay so when the host is back; those that ran are up again then.
func (s *Simulator) powerOff(host int, at time.Duration) {
	s.agenda.Change(func(x *Item) bool { return x.Kind != actionEnds || s.locations[x.Index].host != host })
	for _, r := range s.table.ReplicasOn(host) {
		x := &s.engineStates[r]
		changed := x.acting || x.is == fleet.Loading || x.is == fleet.Warm
		if x.acting {
			x.acting = false
			s.observe(control.Event{At: at, Kind: control.ActionFailed, Replica: r, Action: x.action, Reason: "host lost"})
		}
		// To its controller a failed action leaves the replica as it was before. The engine
		// is cold in truth, so that is reported too.
		if changed {
			x.is = fleet.Cold
			s.observe(control.Event{At: at, Kind: control.Changed, Replica: r, State: fleet.Cold, Reason: "host lost"})
		}
	}
}
