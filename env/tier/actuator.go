package tier

import (
	"fmt"
	"time"

	"gearshift/env/agenda"
	"gearshift/router/control"
	"gearshift/router/fleet"
)

// Act implements [control.Actuator]: Load brings a cold replica into memory, which takes time
// and work of its host, and leaves it warm; Activate has a warm one take requests; Unload gives
// its memory back at once, and breaks the requests that it still has. It refuses an action of an
// older epoch than one that it has seen for the replica.
func (t *Tier) Act(a control.Action) error {
	err := t.begin(a)
	if err != nil {
		t.r.result.Refused++
		return fmt.Errorf("cannot %v: %w", a, err)
	}
	return nil
}

func (t *Tier) begin(a control.Action) error {
	if a.Replica < 0 || a.Replica >= len(t.r.deployed.slots) {
		return fmt.Errorf("the tier has %d, counted from 0", len(t.r.deployed.slots))
	}
	s, m, h := &t.r.deployed.slots[a.Replica], &t.r.Models[t.Model(a.Replica)], &t.r.hosts[t.Host(a.Replica)]
	switch {
	case a.Epoch < s.seen:
		return fmt.Errorf("the order is of epoch %d, and one of %d came before it", a.Epoch, s.seen)
	case s.acting:
		return fmt.Errorf("%v is under way there", s.action.Verb)
	case a.Verb == control.Load && s.state == fleet.Cold:
		if limit := t.r.Hosts[t.Host(a.Replica)].Memory; limit > 0 && h.memory.taken+m.Memory > limit {
			return fmt.Errorf("its host lacks %d bytes of memory", h.memory.taken+m.Memory-limit)
		}
		h.memory.taken += m.Memory
		s.state = fleet.Loading
		t.later(a, m.LoadTime)
	case a.Verb == control.Activate && s.state == fleet.Warm:
		s.state, s.seen = fleet.Up, a.Epoch
		t.count(t.Model(a.Replica))
	case a.Verb == control.Unload && (s.state == fleet.Up || s.state == fleet.Warm):
		s.state, s.drained = fleet.Cold, false
		h.memory.taken -= m.Memory
		t.count(t.Model(a.Replica))
		t.r.stop(a.Replica, t.r.deployed.now)
		t.later(a, 0)
	case a.Verb > control.Activate || a.Verb == control.Sleep || a.Verb == control.Wake:
		return fmt.Errorf("simulated hosts know load, activate and unload alone")
	default:
		return fmt.Errorf("it is %v", s.state)
	}
	return nil
}

// later has an action proceed after a time.
func (t *Tier) later(a control.Action, takes time.Duration) {
	s := &t.r.deployed.slots[a.Replica]
	s.acting, s.action, s.seen = true, a, a.Epoch
	t.r.agenda.Add(agenda.Item{At: t.r.deployed.now + takes, Kind: actionProceeds, Index: a.Replica})
}

// proceed goes on with an action: what has been read from disk is loaded, which is work.
func (r *run) proceed(replica int, now time.Duration) {
	model, on := replica/len(r.hosts), replica%len(r.hosts)
	m := &r.Models[model]
	if r.deployed.slots[replica].action.Verb == control.Load {
		if m.LoadWork == 0 {
			r.loaded(model, on, now)
			return
		}
		h := &r.hosts[on]
		h.advance(now)
		h.add(request{client: nobody, model: int32(model), arrived: now, work: m.LoadWork}, m)
		r.schedule(on)
		return
	}
	r.result.Unloads++
	r.finish(replica, now)
}

// loaded ends a load.
func (r *run) loaded(model, on int, now time.Duration) {
	s := r.slot(model, on)
	s.state, s.cold = fleet.Warm, r.Models[model].Cold
	r.deployed.loading[on] += r.Models[model].LoadWork.Seconds()
	r.result.Loads++
	r.finish(model*len(r.hosts)+on, now)
}

// finish ends an action, and reports it to the controller.
func (r *run) finish(replica int, now time.Duration) {
	s := &r.deployed.slots[replica]
	s.acting = false
	r.deployed.controller.Observe(control.Event{At: now, Kind: s.action.Verb.Done(), Replica: replica, Host: replica % len(r.hosts), Action: s.action})
	r.wake(now)
}

// wake wakes the controller.
func (r *run) wake(now time.Duration) {
	r.deployed.now = now
	next := max(now+1, r.deployed.controller.Wake(now))
	r.deployed.wakes = next
	if next < r.Length {
		r.agenda.Add(agenda.Item{At: next, Kind: controllerWakes})
	}
}

// stop breaks the requests that the replica has.
func (r *run) stop(replica int, now time.Duration) {
	model, on := replica/len(r.hosts), replica%len(r.hosts)
	if r.deployed.slots[replica].running == 0 {
		return
	}
	h := &r.hosts[on]
	h.advance(now)
	for _, x := range h.remove(model, r.Models) {
		r.deployed.slots[replica].running--
		r.knowledge(int(x.client), model).Own[x.replica]--
		r.fail(model, x.parent, now)
	}
	r.schedule(on)
}
