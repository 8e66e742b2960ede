package env

import (
	"math/rand/v2"

	"gearshift/env/engine"
	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/workloads"
)

// Config returns what the environment was made of.
func (e *Environment) Config() Config { return e.config }

// CopyFrom makes e an independent copy of o during its episode, reusing e's memory: the
// same actions lead to bit-equal steps, and neither disturbs the other. The zero
// Environment may be copied into.
//
// A stream cannot be copied, so the requests after the present one come from rest. Pass
// those that o will meet, others to try another future, or none to end with the present
// request. Observers, controllers and the Outcomes of the last step are not copied. Where
// replicas are slower than declared (Config.Declared), the copy keeps the estimates so far
// and makes no new ones. An environment as served (Config.AsServed) cannot be copied, since
// its waiting requests cannot, nor one with jobs (Config.Jobs) or a follower beside (Config.Beside), and none under other laws than
// engines' (Config.Laws).
func (e *Environment) CopyFrom(o *Environment, rest workloads.Stream) {
	if o.served != nil || o.config.Laws != nil || o.config.Jobs != nil || o.config.Beside != nil {
		panic("env: an environment as served, with jobs or streams, or under other laws than engines', cannot be copied")
	}
	into := *e
	*e = *o
	e.stream = rest
	if e.sim, e.ledger, e.random = into.sim, into.ledger, into.random; e.sim == nil {
		e.sim, e.ledger, e.random = new(Simulator), new(fleet.Ledger), new(rand.PCG)
	}
	ledgerOf := func(int) *fleet.Ledger { return e.ledger }
	if o.routers == nil {
		e.ledger.CopyFrom(o.ledger)
	} else {
		if e.routers = into.routers; e.routers == nil {
			e.routers = new(routerReplicas)
		}
		e.routers.copyFrom(o.routers)
		e.ledger, ledgerOf = e.routers.ledger(o.decisions), e.routers.ledger
	}
	e.sim.copyFrom(o.sim, ledgerOf)
	e.sim.join(e.ledger, e.routers)
	*e.random = *o.random
	if e.decide = into.decide; e.decide == nil {
		e.decide = new(router.Decision)
	}
	e.decide.CopyFrom(o.decide, e.ledger, e.holder())
	e.observation = append(into.observation[:0], o.observation...)
	e.outcomes = into.outcomes[:0]
}

// copyFrom makes s an independent copy of o. Its leases are on ledgerOf(decision), a copy
// of the ledger that the decision was made on.
func (s *Simulator) copyFrom(o *Simulator, ledgerOf func(decision int) *fleet.Ledger) {
	into := *s
	*s = *o
	s.hosts, s.laws = into.hosts, into.laws
	for len(s.hosts) < len(o.hosts) {
		host := new(engine.Host)
		s.hosts, s.laws = append(s.hosts, host), append(s.laws, host)
	}
	s.hosts, s.laws = s.hosts[:len(o.hosts)], s.laws[:len(o.hosts)]
	for h := range o.hosts {
		s.hosts[h].CopyFrom(o.hosts[h])
	}
	s.order = into.order
	s.order.copyFrom(&o.order, s.laws)
	s.jobs = append(into.jobs[:0], o.jobs...)
	for i := range s.jobs {
		s.jobs[i].lease = s.jobs[i].lease.On(ledgerOf(s.jobs[i].outcome.Decision))
	}
	s.free = append(into.free[:0], o.free...)
	s.drift, s.marginal, s.difference, s.routers, s.controllers = nil, nil, nil, nil, nil
	s.engineStates = append(into.engineStates[:0], o.engineStates...)
	s.down, s.gone = append(into.down[:0], o.down...), append(into.gone[:0], o.gone...)
	s.ledgers = into.ledgers[:0]
	s.agenda = into.agenda
	s.agenda.CopyFrom(&o.agenda)
	if o.drift != nil {
		s.agenda.Change(func(x *Item) bool { return x.Kind != beliefsFade })
	}
	s.event = into.event[:0]
}

func (q *hostHeap) copyFrom(o *hostHeap, laws []Law) {
	q.laws = laws
	q.at = append(q.at[:0], o.at...)
	q.order = append(q.order[:0], o.order...)
	q.index = append(q.index[:0], o.index...)
}

// Fingerprint returns a hash of what the engines hold and do, down to each token and the
// ends of the steps in progress. If two runs of one episode have the same fingerprint at
// the same request, the same actions lead both to the same end from there on, except with a
// probability of 2⁻⁶⁴. Searches use that to drop duplicates.
func (e *Environment) Fingerprint() uint64 {
	s := e.sim
	var sum uint64
	for _, h := range s.hosts {
		sum = sum*0x100000001b3 ^ h.Fingerprint(func(id uint64) uint64 { return uint64(s.jobs[id].outcome.Decision) })
	}
	return sum
}
