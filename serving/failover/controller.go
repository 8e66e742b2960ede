package failover

import (
	"time"

	"gearshift/router/control"
	"gearshift/router/failover"
	"gearshift/router/fleet"
)

// This file is the module as a [control.Controller]: the engines' runner wakes it.

// Observe implements [control.Controller]. Evidence is of hosts; how orders have ended is read off
// the lifecycles in Wake.
func (m *Module) Observe(e control.Event) {
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

// How often in a row a wake is put off that is late, or at which no agent at all has been heard.
const (
	latest = 3
	silent = 10
)

// Wake implements [control.Controller].
func (m *Module) Wake(now time.Duration) time.Duration {
	if !m.begun {
		m.begun = true
		m.begin()
	}
	if m.putsOff(now) {
		return m.until
	}
	m.reconcile(now)
	m.due = m.controller.Wake(now)
	if m.reconcile(now) {
		m.due = min(m.due, now+1)
	}
	if m.changed {
		m.changed = false
		m.keep()
	}
	return m.due
}

// putsOff reports whether the controller is to look a little later, at m.until, since this process
// seems to have stood still, or to be cut off itself: heartbeats may have come in that time, and
// are about to be read. Where all are silent, there is nothing that could take over anyway.
func (m *Module) putsOff(now time.Duration) bool {
	every := m.options.Controller.Heartbeat
	if now < m.until {
		return true
	}
	late := m.due > 0 && m.due != control.Never && now-m.due > every/2
	alone := m.agents.allSilent(now)
	switch {
	case every > 0 && m.alone && !alone: // the first is heard again: the others are about to be
		m.alone, m.until = false, now+every
		return true
	case every <= 0 || !late && !alone:
		m.postponed = 0
		return false
	case late && m.postponed < latest, alone && m.postponed < silent:
		m.postponed++
		m.alone, m.until = alone, now+every/2
		return true
	}
	return false
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
	all       map[int][]string
}

func newEvidence(t *fleet.Table, addresses []string) evidence {
	e := evidence{addresses: addresses, bad: map[string]control.Kind{}, all: map[int][]string{}}
	for i, r := range t.Replicas {
		known := false
		for _, a := range e.all[r.Host] {
			known = known || a == addresses[i]
		}
		if !known {
			e.all[r.Host] = append(e.all[r.Host], addresses[i])
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
	for _, a := range e.all[x.Host] {
		if e.bad[a] != control.Refused && (x.Kind == control.Refused || e.bad[a] != control.ProbeFailed) {
			return false
		}
	}
	return true
}
