package failover

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
)

// slot is a replica, which several instances may share: applications that have its variant. It is
// loaded for the first of them and unloaded after the last.
type slot struct {
	host    int
	held    []int            // instances that are loaded, or being loaded
	pending []control.Action // actions of instances that have not ended
	want    fleet.State      // of the pending actions
	ordered bool             // the engine's lifecycle has the order
	needs   uint64           // orders that the file must have first
	since   time.Duration    // when the last order ended
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
	s := &m.slots[r]
	m.changed = true
	if a.Verb == control.Unload {
		s.release(a.Replica)
		if len(s.held) > 0 || m.lowest(r) == fleet.Warm && m.othersHeld(r) { // others need it
			m.ended(a, nil)
			return nil
		}
		m.order(s, a, m.lowest(r))
		return nil
	}
	s.hold(a.Replica)
	if len(s.pending) == 0 && m.engines.Placed(r) == fleet.Up && m.engines.LifecycleOf(r).Doing == "" {
		m.ended(a, nil)
		return nil
	}
	m.order(s, a, fleet.Up)
	return nil
}

// order notes an action that the replica's engine has to do something for. Earlier ones with
// another aim are over: what they were to bring about is not wanted any more.
func (m *Module) order(s *slot, a control.Action, want fleet.State) {
	if s.want != want {
		for _, earlier := range s.pending {
			m.ended(earlier, nil)
		}
		s.pending = nil
	}
	m.orders++
	s.pending, s.want, s.ordered, s.needs = append(s.pending, a), want, false, m.orders
	if m.file == nil {
		m.saved = m.orders
	}
}

// lowest is the state that an unload leads to: an engine that can only sleep stays warm.
func (m *Module) lowest(replica int) fleet.State {
	if m.engines.Driven(replica) != "" && m.engines.Refuses(replica, control.Unload) != nil && m.engines.Refuses(replica, control.Sleep) == nil {
		return fleet.Warm
	}
	return fleet.Cold
}

// othersHeld reports whether instances need a replica that sleeps and wakes with this one.
func (m *Module) othersHeld(replica int) bool {
	together := m.engines.Together()
	return together != nil && slices.ContainsFunc(together[replica], m.Holds)
}

// idle reports whether a replica that nothing needs is awake, of an engine that can sleep.
func (m *Module) idle(replica int) bool {
	if m.engines.Placed(replica) != fleet.Up || m.lowest(replica) != fleet.Warm || m.othersHeld(replica) {
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

// nameOf is what an instance is, in words.
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

// reconcile gives the lifecycles what is due and reports what has ended. It reports whether the
// controller has to see something.
func (m *Module) reconcile(now time.Duration) (news bool) {
	ordered := false
	for r := range m.slots {
		s := &m.slots[r]
		switch {
		case len(s.pending) > 0:
			n, o := m.follow(r, s, now)
			news, ordered = news || n, ordered || o
		case len(s.held) > 0 && m.vanished(r):
			m.drop(r, s, now)
			news = true
		case len(s.held) == 0 && m.idle(r):
			m.adopt(r, s, now)
			news = news || len(s.held) > 0
		}
	}
	if ordered { // the lifecycles come before this controller
		m.engines.Nudge()
	}
	return news
}

// Holds reports whether applications need the replica, so that nothing else may unload it. It is
// called while the engines' controllers are locked.
func (m *Module) Holds(replica int) bool {
	return len(m.slots[replica].held)+len(m.slots[replica].pending) > 0
}

// vanished reports whether a replica that instances need is not loaded any more.
func (m *Module) vanished(replica int) bool {
	switch m.engines.Placed(replica) {
	case fleet.Up, fleet.Loading, fleet.Draining:
		return false
	}
	return m.engines.LifecycleOf(replica).Doing == ""
}

// drop reports instances as gone that something else has unloaded.
func (m *Module) drop(replica int, s *slot, now time.Duration) {
	for _, id := range s.held {
		_, _, server := m.system.Of(id)
		m.controller.Observe(control.Event{At: now, Kind: control.Unloaded, Replica: id, Host: server, Reason: m.engines.Placed(replica).String()})
	}
	s.held = nil
}

// follow gives the order for the pending actions of a replica, or sees how it has ended.
func (m *Module) follow(r int, s *slot, now time.Duration) (news, ordered bool) {
	status := m.engines.LifecycleOf(r)
	placed := m.engines.Placed(r)
	switch {
	case status.Doing == "" && placed == s.want:
		m.settle(s, now, nil)
		return true, false
	case s.ordered && status.Doing != "":
		return false, false
	case s.ordered:
		m.settle(s, now, cmp.Or(status.Err, fmt.Errorf("it is %v", placed)))
		return true, false
	case m.saved < s.needs: // the file comes first
		return false, false
	case status.Doing != "" && status.Target == s.want: // by an order of an operator
		s.ordered = true
		return false, false
	}
	if err := m.engines.Want(r, s.want); err != nil {
		if status.Doing != "" || placed == fleet.Loading || placed == fleet.Draining {
			return false, false // another order has to end first
		}
		m.settle(s, now, err)
		return true, false
	}
	s.ordered = true
	return false, true
}

// settle reports how the pending actions have ended.
func (m *Module) settle(s *slot, now time.Duration, err error) {
	for _, a := range s.pending {
		switch {
		case err != nil && a.Verb == control.Load:
			s.release(a.Replica)
		case err != nil:
			s.hold(a.Replica) // it is still there
		}
		m.ended(a, err)
	}
	s.pending, s.ordered, s.since = nil, false, now
}
