package failover

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
)

// slot is a location, which several instances may share: applications that have its variant. It is
// loaded for the first of them and unloaded after the last.
type slot struct {
	host int
	held []int // instances that are loaded, or being loaded
}

// order is an action of an instance that its location has to do something for.
type order struct {
	control.Action
	slot  int
	needs uint64 // orders that the file must have first
	want  uint64 // the number of what is wanted for it; 0 before
}

func (s *slot) hold(instance int) {
	if !slices.Contains(s.held, instance) {
		s.held = append(s.held, instance)
	}
}

func (s *slot) release(instance int) {
	s.held = slices.DeleteFunc(s.held, func(id int) bool { return id == instance })
}

// findReplicas has each instance find its replica, and each server its host.
func (m *Module) findReplicas() error {
	t := m.options.Table
	m.servers, m.slots, m.slotOf = make([]int, len(t.Hosts)), make([]slot, len(t.Replicas)), make([]int, m.system.Instances())
	for h := range m.servers {
		m.servers[h] = -1
	}
	for i := range m.system.Servers {
		name := m.system.Servers[i].Name
		h := slices.IndexFunc(t.Hosts, func(x fleet.Host) bool { return x.Name == name })
		if h < 0 {
			return fmt.Errorf("there is no host %q", name)
		}
		m.hosts = append(m.hosts, h)
		m.servers[h] = i
	}
	for r := range m.slots {
		m.slots[r].host = t.Replicas[r].Host
	}
	for id := range m.slotOf {
		app, variant, server := m.system.Of(id)
		name := m.system.Applications[app].Variants[variant].Name
		m.slotOf[id] = slices.IndexFunc(t.Replicas, func(r fleet.Replica) bool {
			return r.Host == m.hosts[server] && t.Variants[r.Variant].Name == name
		})
	}
	return nil
}

// actuator carries out the controller's actions. It implements [control.Actuator].
type actuator struct{ *Module }

// Act implements [control.Actuator]. Activations and notices need nothing: what is up, and answers a
// task, gets its requests by the policy in charge, and subscribers get the step.
func (m actuator) Act(a control.Action) error {
	if a.Verb != control.Load && a.Verb != control.Unload {
		return nil
	}
	r := m.slotOf[a.Replica]
	if r < 0 {
		return errors.New("there is no such replica: " + m.nameOf(a.Replica))
	}
	s, idle := &m.slots[r], !m.ordered(r)
	m.changed = true
	switch {
	case a.Verb == control.Unload:
		if s.release(a.Replica); len(s.held) > 0 || m.engines.OnlySleeps(r) && m.othersHeld(r) || m.engines.Driven(r) == "" {
			// Others need it, or nothing unloads it.
			m.ended(a, nil)
			return nil
		}
	case idle && m.claims.Up(r):
		s.hold(a.Replica)
		m.ended(a, nil)
		return nil
	default:
		s.hold(a.Replica)
	}
	m.given++
	if m.orders = append(m.orders, order{Action: a, slot: r, needs: m.given}); m.store == nil {
		m.saved = m.given
	}
	return nil
}

// ordered reports whether an action of the location has not ended.
func (m *Module) ordered(slot int) bool {
	return slices.ContainsFunc(m.orders, func(o order) bool { return o.slot == slot })
}

// propose wants what has been ordered and the file has.
func (m *Module) propose() {
	for k := range m.orders {
		o := &m.orders[k]
		if o.want != 0 || o.needs > m.saved {
			continue
		}
		var err error
		if o.want, err = m.claims.Propose(lifecycle.Want{Replica: o.slot, State: o.Verb.State()}); err != nil {
			m.settle(o, err)
		}
	}
	m.orders = slices.DeleteFunc(m.orders, func(o order) bool { return o.needs == 0 })
}

// reported takes in how what was wanted has ended, or that what is held has been unloaded.
func (m *Module) reported(e control.Event) {
	if e.Want == 0 {
		s := &m.slots[e.Replica]
		for _, id := range s.held {
			_, _, server := m.system.Of(id)
			m.controller.Observe(control.Event{At: e.At, Kind: control.Unloaded, Replica: id, Host: server, Reason: e.Reason})
		}
		s.held = nil
		return
	}
	for k := range m.orders {
		if o := &m.orders[k]; o.want == e.Want {
			var err error
			if e.Kind == control.ActionFailed || e.Kind == control.Evicted && !(o.Verb == control.Unload && len(m.slots[o.slot].held) > 0) {
				err = errors.New(e.Reason)
			} // else nobody wants the unload any more, since a load has been ordered
			m.settle(o, err)
		}
	}
	m.orders = slices.DeleteFunc(m.orders, func(o order) bool { return o.needs == 0 })
}

// settle reports how an order has ended, which is over then.
func (m *Module) settle(o *order, err error) {
	switch s := &m.slots[o.slot]; {
	case (err == nil) == (o.Verb == control.Load): // it is there, or still there
		s.hold(o.Replica)
	default:
		s.release(o.Replica)
	}
	m.ended(o.Action, err)
	o.needs = 0
}

// claim holds what is loaded for instances and what room is kept for, and has the controller know what others
// take of its servers.
func (m *Module) claim() {
	m.kept = m.kept[:0]
	for r := range m.slots {
		if len(m.slots[r].held) > 0 {
			m.kept = append(m.kept, r)
		}
	}
	for _, id := range m.controller.Kept() {
		if r := m.slotOf[id]; r >= 0 {
			m.kept = append(m.kept, r)
		}
	}
	m.claims.Hold(m.kept, nil)
	for i, host := range m.hosts {
		m.controller.Occupy(i, float64(m.claims.Others(host)))
	}
}

// othersHeld reports whether instances need a replica that sleeps and wakes with this one.
func (m *Module) othersHeld(replica int) bool {
	together := m.engines.Together()
	return together != nil && slices.ContainsFunc(together[replica], func(r int) bool { return len(m.slots[r].held) > 0 || m.ordered(r) })
}

// idle reports whether a replica that nothing needs is awake, of an engine that can sleep.
func (m *Module) idle(replica int) bool {
	if m.engines.Placed(replica) != fleet.Up || !m.engines.OnlySleeps(replica) || m.othersHeld(replica) {
		return false
	}
	server, status := m.servers[m.slots[replica].host], m.engines.LifecycleOf(replica)
	return server >= 0 && !m.lost[server] && status.Doing == "" && status.Target == fleet.Up
}

// holdAll has all instances hold the replica that it could be.
func (m *Module) holdAll(replica int) {
	for id, r := range m.slotOf {
		if r == replica {
			m.slots[replica].hold(id)
		}
	}
}

// adopt reports the instances of a replica as loaded that was found so. The controller has it put to
// sleep unless they are wanted.
func (m *Module) adopt(replica int, s *slot, now time.Duration) {
	m.holdAll(replica)
	for _, id := range s.held {
		_, _, server := m.system.Of(id)
		m.controller.Observe(control.Event{At: now, Kind: control.Loaded, Replica: id, Host: server})
	}
}

// nameOf names an instance in words.
func (m *Module) nameOf(instance int) string {
	app, variant, server := m.system.Of(instance)
	return m.system.Applications[app].Variants[variant].Name + "@" + m.system.Servers[server].Name
}

// ended reports the end of an action to the controller.
func (m *Module) ended(a control.Action, err error) {
	_, _, server := m.system.Of(a.Replica)
	e := control.Event{At: m.clock(), Kind: a.Verb.Done(), Replica: a.Replica, Host: server, Action: a}
	if err != nil {
		e.Kind, e.Reason = control.ActionFailed, err.Error()
	}
	m.controller.Observe(e)
}

// reconcile wants what is due, and takes in what nothing needs. It reports whether the controller has to see
// something.
func (m *Module) reconcile(now time.Duration) (news bool) {
	m.propose()
	for r := range m.slots {
		if s := &m.slots[r]; len(s.held) == 0 && !m.ordered(r) && m.idle(r) {
			m.adopt(r, s, now)
			news = news || len(s.held) > 0
		}
	}
	return news
}
