package env

import (
	"math/rand/v2"

	"gearshift/env/engine"
	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/workloads"
)

// Config is what the environment was made of.
func (e *Environment) Config() Config { return e.config }

// CopyFrom makes e an independent copy of o in the midst of its episode, reusing
// e's memory: the same actions lead to bit-equal steps, and neither disturbs the
// other. A stream cannot be copied, so the requests after the present one come
// from rest; give it those that o will meet, others to try another future, or
// none to end with the present request. Observers and controllers are not copied, nor the
// Outcomes of the last step; and of replicas that are slower than declared (Declared)
// the copy keeps to what has been noticed so far. The zero Environment may be copied into.
// One as served (Config.AsServed) cannot be copied, since the requests that wait cannot.
func (e *Environment) CopyFrom(o *Environment, rest workloads.Stream) {
	if o.served != nil {
		panic("env: an environment as served cannot be copied")
	}
	into := *e
	*e = *o
	e.stream = rest
	if e.sim, e.ledger, e.random = into.sim, into.ledger, into.random; e.sim == nil {
		e.sim, e.ledger, e.random = new(Simulator), new(fleet.Ledger), new(rand.PCG)
	}
	ledgerOf := func(int) *fleet.Ledger { return e.ledger }
	if o.crew == nil {
		e.ledger.CopyFrom(o.ledger)
	} else {
		if e.crew = into.crew; e.crew == nil {
			e.crew = new(crew)
		}
		e.crew.copyFrom(o.crew)
		e.ledger, ledgerOf = e.crew.ledger(o.decisions), e.crew.ledger
	}
	e.sim.copyFrom(o.sim, ledgerOf)
	e.sim.join(e.ledger, e.crew)
	*e.random = *o.random
	if e.decide = into.decide; e.decide == nil {
		e.decide = new(router.Decision)
	}
	e.decide.CopyFrom(o.decide, e.ledger, e.holder())
	e.observation = append(into.observation[:0], o.observation...)
	e.outcomes = into.outcomes[:0]
}

// copyFrom makes s an independent copy of o whose leases are those of the ledger
// that each decision was made on, a copy of o's.
func (s *Simulator) copyFrom(o *Simulator, ledgerOf func(decision int) *fleet.Ledger) {
	into := *s
	*s = *o
	s.hosts = into.hosts
	for len(s.hosts) < len(o.hosts) {
		s.hosts = append(s.hosts, new(engine.Host))
	}
	s.hosts = s.hosts[:len(o.hosts)]
	for h := range o.hosts {
		s.hosts[h].CopyFrom(o.hosts[h])
	}
	s.order = into.order
	s.order.copyFrom(&o.order, s.hosts)
	s.jobs = append(into.jobs[:0], o.jobs...)
	for i := range s.jobs {
		s.jobs[i].lease = s.jobs[i].lease.On(ledgerOf(s.jobs[i].outcome.Decision))
	}
	s.free = append(into.free[:0], o.free...)
	s.pace, s.outlook, s.crew, s.controllers = nil, nil, nil, nil
	s.stands = append(into.stands[:0], o.stands...)
	s.ledgers = into.ledgers[:0]
	s.agenda = into.agenda
	s.agenda.copyFrom(&o.agenda)
	if o.pace != nil {
		s.agenda.change(func(x *item) bool { return x.what != beliefsFade })
	}
	s.event = into.event[:0]
}

func (q *hostHeap) copyFrom(o *hostHeap, hosts []*engine.Host) {
	q.hosts = hosts
	q.at = append(q.at[:0], o.at...)
	q.heap = append(q.heap[:0], o.heap...)
	q.index = append(q.index[:0], o.index...)
}

// Redraw gives the present request, and each that has not ended, another output
// length, as length returns it for the request's decision, its task and the tokens
// that it has generated: a state that looks the same to all who do not know the lengths.
// One that has to be longer, since it still runs, or shorter to fit the KV cache,
// is taken as the nearest that may be. Losses of hosts that are still to come
// will not come.
func (e *Environment) Redraw(length func(decision, task, generated int) int) {
	e.sim.losses = e.sim.losses[:e.sim.nextLoss]
	e.sim.agenda.change(func(x *item) bool { return x.what != hostLost })
	e.config.Losses = e.sim.losses
	e.arrival.OutputTokens = max(1, length(e.decisions, e.arrival.Task, 0))
	e.sim.redraw(length)
}

func (s *Simulator) redraw(length func(decision, task, generated int) int) {
	draw := func(id uint64, generated, most int) int {
		o := &s.jobs[id].outcome
		if o.OutputTokens == 0 { // it has none, however long it is
			return 1
		}
		o.OutputTokens = min(max(length(o.Decision, o.Request.Task, generated), generated+1), most)
		return o.OutputTokens
	}
	for h := range s.hosts {
		for i := range s.table.ReplicasOn(h) {
			s.hosts[h].Redraw(i, draw)
		}
	}
}
