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
	if e.Kind == control.Slept || e.Kind == control.Woken {
		m.controller.Touch() // the file has levels of sleeps
	}
	if e.Kind <= control.ProbePassed && m.evidence.counts(e) && m.engines.StandsBy() == nil { // else it keeps events for a Wake that does not come
		m.controller.Observe(e)
	}
}

// Wake implements [control.Controller].
func (m *Module) Wake(now time.Duration) time.Duration {
	due := m.controller.Wake(now)
	if orders, again := m.controller.Saving(); again && m.store != nil {
		m.store.Keep(m.state(orders))
	}
	return due
}

// hosts is what the controller asks for beside states of replicas. It implements [failover.Hosts].
type hosts struct{ *Module }

func (m hosts) Leave(host int, _ time.Duration)  { m.engines.Leave(host) }
func (m hosts) Return(host int, _ time.Duration) { m.engines.Return(host) }
func (m hosts) Poll(host int)                    { m.engines.Poll(host) }
func (m hosts) Ask(host int)                     { m.ask(host) }
func (m hosts) Driven(replica int) bool          { return m.engines.Driven(replica) != "" }

// report follows a step of the controller, within its Wake.
func (m *Module) report(s failover.Step) {
	if s.Failover != m.failover {
		m.failover, m.began = s.Failover, s.At
	}
	n := m.notice(s)
	n.Time, n.Term = m.wall(s.At), m.term.Load()
	m.metrics.took(s)
	m.hub.publish(n)
	m.tell(s, n)
}

// notice puts names to the step.
func (m *Module) notice(s failover.Step) Notice {
	n := Notice{Failover: s.Failover, AtMS: milliseconds(s.At - m.began), Kind: string(s.Kind), Quality: s.Quality, Full: s.Full, TookMS: milliseconds(s.Took), Reason: s.Reason}
	if s.Failover == 0 {
		n.AtMS = 0
	}
	if s.Host >= 0 {
		n.Host = m.problem.Hosts[s.Host].Name
	}
	if s.Application >= 0 {
		a := &m.problem.Applications[s.Application]
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
