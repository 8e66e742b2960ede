package failover

import (
	"slices"
	"time"

	"gearshift/router/control"
	"gearshift/router/failover"
	"gearshift/router/fleet"
)

// This file is the module as a [control.Controller]: the engines' runner wakes it.

// Observe implements [control.Controller]. Evidence is of hosts; how orders have ended comes by
// the claims.
func (m *Module) Observe(e control.Event) {
	m.changed = m.changed || e.Kind == control.Slept || e.Kind == control.Woken // the file has levels of sleeps
	if e.Kind > control.ProbePassed || e.Host < 0 || e.Host >= len(m.servers) || m.servers[e.Host] < 0 {
		return
	}
	if !m.evidence.counts(e) {
		return
	}
	e.Host, e.Replica = m.servers[e.Host], -1
	if e.Kind == control.Refused {
		m.refused[e.Host] = e.At
	}
	m.controller.Observe(e)
}

// Wake implements [control.Controller].
func (m *Module) Wake(now time.Duration) time.Duration {
	if !m.begun {
		m.begun = true
		m.begin()
	}
	m.reconcile(now)
	due := m.controller.Wake(now)
	if m.reconcile(now) {
		due = min(due, now+1)
	}
	m.claim()
	if m.changed {
		m.changed = false
		m.store.Keep(m.state())
	}
	return due
}

// report follows a step of the controller, within its Wake.
func (m *Module) report(s failover.Step) {
	m.changed = true
	if s.Failover != m.failover {
		m.failover, m.began = s.Failover, s.At
	}
	n := m.notice(s)
	n.Time, n.Term = m.wall(s.At), m.term
	switch s.Kind {
	case failover.StepLost:
		m.leave(s.Server)
	case failover.StepReturned:
		m.engines.Poll(m.hosts[s.Server]) // what it has now is for it to say
		m.back(s.Server)                  // what is loaded there answers; what is to be loaded there waits longer
	case failover.StepFalseAlarm:
		if !m.refusing(s.Server, s.At) {
			m.back(s.Server)
		}
	case failover.StepUsable:
		m.back(s.Server)
	}
	m.metrics.took(s)
	m.hub.publish(n)
	m.tell(s, n)
}

// refusing reports whether the server has refused connections lately, though its agent reports: it
// may be reached at another address than it listens at.
func (m *Module) refusing(server int, now time.Duration) bool {
	at := m.refused[server]
	return at > 0 && now-at < m.options.Controller.ReturnAfter
}

// leave takes a server's replicas out.
func (m *Module) leave(server int) {
	m.lost[server] = true
	m.engines.Leave(m.hosts[server])
}

// back gives a server's replicas requests again.
func (m *Module) back(server int) {
	m.lost[server] = false
	m.engines.Return(m.hosts[server])
}

// notice puts names to the step.
func (m *Module) notice(s failover.Step) Notice {
	n := Notice{Failover: s.Failover, AtMS: milliseconds(s.At - m.began), Kind: string(s.Kind), Quality: s.Quality, Full: s.Full, TookMS: milliseconds(s.Took), Reason: s.Reason}
	if s.Failover == 0 {
		n.AtMS = 0
	}
	if s.Server >= 0 {
		n.Server = m.system.Servers[s.Server].Name
	}
	if s.Application >= 0 {
		a := &m.system.Applications[s.Application]
		if n.Application = a.Name; s.Variant >= 0 {
			n.Variant = a.Variants[s.Variant].Name
		}
	}
	return n
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// evidence weighs what is known of hosts whose replicas are behind several servers: a host is only
// refusing, or failing probes, when all of them are.
type evidence struct {
	addresses []string // by replica
	bad       map[string]control.Kind
	all       map[int][]int // by host, a replica of each of its servers
}

func newEvidence(t *fleet.Table, addresses []string) evidence {
	e := evidence{addresses: addresses, bad: map[string]control.Kind{}, all: map[int][]int{}}
	for i, r := range t.Replicas {
		if !slices.ContainsFunc(e.all[r.Host], func(k int) bool { return addresses[k] == addresses[i] }) {
			e.all[r.Host] = append(e.all[r.Host], i)
		}
	}
	return e
}

// counts reports whether the event says something of the whole host.
func (e *evidence) counts(x control.Event) bool {
	if x.Replica < 0 || len(e.all[x.Host]) < 2 {
		return true
	}
	address := e.addresses[x.Replica]
	switch x.Kind {
	case control.Refused, control.ProbeFailed:
		e.bad[address] = x.Kind
	case control.ProbePassed, control.Answered:
		delete(e.bad, address)
		return true
	case control.Broken:
		return true
	}
	for _, k := range e.all[x.Host] {
		if a := e.addresses[k]; e.bad[a] != control.Refused && (x.Kind == control.Refused || e.bad[a] != control.ProbeFailed) {
			return false
		}
	}
	return true
}
