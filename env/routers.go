package env

import (
	"fmt"
	"math/rand/v2"
	"time"

	"gearshift/env/engine"
	"gearshift/router/fleet"
)

// Routers sets how many routers share the fleet, and what they know of each other's
// requests. The zero value is one router, which sees all requests.
type Routers struct {
	// Number is how many routers there are. Each request comes to one of them, drawn at
	// random as by a load balancer in front. A router counts only its own requests and
	// their tokens. It knows the number of routers, and multiplies its own arrival rate by
	// it to estimate the rate of all.
	Number int
	// Gauges is how often each router reads the engines' gauges: requests, and tokens in
	// the KV cache. The routers take turns. Until its next reading a router takes what the
	// gauges show beyond its own requests for the requests of the others. Zero is never.
	Gauges time.Duration
	// Shares sets the time between two requests of a router to the others for their load on each replica and their
	// arrival rate; zero disables them. Routers take turns. With shares a router counts the reported load as the
	// other routers', and what gauges show beyond it as other clients'. The total rate is the sum of the reported
	// rates. Delay sets the age of an answer on arrival.
	Shares, Delay time.Duration
}

func (r Routers) validate() error {
	switch {
	case r.Number < 0 || r.Gauges < 0 || r.Shares < 0 || r.Delay < 0:
		return fmt.Errorf("routers: number %d, gauge interval %v, share interval %v, share delay %v; want none below zero", r.Number, r.Gauges, r.Shares, r.Delay)
	case r.Shares > 0 && r.Delay >= r.Shares:
		return fmt.Errorf("routers: share delay %v at a share interval of %v; want a shorter delay", r.Delay, r.Shares)
	}
	return nil
}

// routerReplicas are several routers that share the fleet, each with a ledger of its own
// requests. Gauges correct the ledgers as in the router that serves.
type routerReplicas struct {
	Routers
	table   *fleet.Table
	ledgers []*fleet.Ledger
	of      []int32   // router, by decision
	held    []int     // tokens of the present router's requests, by replica
	others  []int     // the same of one that reads
	heard   []heard   // by router
	random  *rand.PCG // draws the router of the next request
}

// heard holds what a router has learned of other routers' requests.
type heard struct {
	beyond []load // by replica, the load that gauges showed beyond the shares
	shares []load // by replica, the load that the others reported
	coming []load // reported by an answer that is on its way
	rates  fleet.Rates
}

// load counts the requests on a replica and their tokens.
type load struct{ inFlight, held int }

// routerStream sets the draws of routers apart from others of a seed.
const routerStream = 0x726f7574657273

func newRouterReplicas(r Routers, t *fleet.Table, seed uint64) *routerReplicas {
	if r.Number < 2 {
		return nil
	}
	c := &routerReplicas{
		Routers: r, table: t,
		held: make([]int, len(t.Replicas)), others: make([]int, len(t.Replicas)),
		random: rand.NewPCG(seed, routerStream),
	}
	for range r.Number {
		l := fleet.NewLedger(t)
		l.ShareRate(r.Number)
		c.ledgers = append(c.ledgers, l)
		n := len(t.Replicas)
		c.heard = append(c.heard, heard{beyond: make([]load, n), shares: make([]load, n), coming: make([]load, n)})
	}
	return c
}

// join makes the simulator write which replicas are up into the ledger, or into those of
// several routers.
func (s *Simulator) join(l *fleet.Ledger, c *routerReplicas) {
	s.routers, s.ledgers = c, append(s.ledgers[:0], l)
	if c != nil {
		s.ledgers = append(s.ledgers[:0], c.ledgers...)
	}
}

// next draws the router of the next request, and returns its ledger.
func (c *routerReplicas) next(s *Simulator) *fleet.Ledger {
	router := int32(rand.New(c.random).IntN(c.Number))
	c.of = append(c.of, router)
	c.count(s, router, c.held)
	return c.ledgers[router]
}

// Held implements fleet.Holder: the tokens of the present router's own requests.
func (c *routerReplicas) Held(replica int) int { return c.held[replica] }

// count writes the tokens that the router's requests hold, by replica.
func (c *routerReplicas) count(s *Simulator, router int32, into []int) {
	clear(into)
	s.each(func(o *Outcome, generated int) {
		if c.of[o.Decision] == router {
			into[o.Replica] += max(1, o.Request.PromptTokens) + generated
		}
	})
}

// schedule adds each router's first readings of gauges and of shares to the agenda. Routers take turns.
func (c *routerReplicas) schedule(a *Agenda) {
	if c == nil {
		return
	}
	for i := range c.Number {
		if c.Gauges > 0 {
			a.Add(Item{At: c.Gauges * time.Duration(i) / time.Duration(c.Number), Kind: gaugesRead, Index: i})
		}
		if c.Shares > 0 {
			a.Add(Item{At: c.Shares * time.Duration(i) / time.Duration(c.Number), Kind: sharesTaken, Index: i})
		}
	}
}

// scrape corrects a router's ledger by the present gauges: load beyond the router's own requests and those that
// the others have shared belongs to other clients.
func (c *routerReplicas) scrape(s *Simulator, router int) {
	c.count(s, int32(router), c.others)
	l, h := c.ledgers[router], &c.heard[router]
	for i := range c.table.Replicas {
		e := s.engineOf(i)
		held := e.Held()
		if size := c.table.Replicas[i].KVTokens; size > 0 {
			held = min(held, size)
		}
		h.beyond[i] = load{max(0, e.Load()-l.InFlightOn(i)-h.shares[i].inFlight), max(0, held-c.others[i]-h.shares[i].held)}
		h.correct(l, i)
	}
}

// correct writes the others' load on a replica into the router's ledger.
func (h *heard) correct(l *fleet.Ledger, replica int) {
	l.Correct(replica, h.beyond[replica].inFlight+h.shares[replica].inFlight, h.beyond[replica].held+h.shares[replica].held)
}

// share lets the other routers answer a request for shares, or delivers their answers to the router.
func (c *routerReplicas) share(s *Simulator, x Item) {
	l, h := c.ledgers[x.Index], &c.heard[x.Index]
	if x.Kind == sharesHeard {
		copy(h.shares, h.coming)
		rates := h.rates
		l.ShareRates(&rates)
		for i := range c.table.Replicas {
			h.correct(l, i)
		}
		return
	}
	clear(h.coming)
	h.rates = fleet.Rates{}
	s.each(func(o *Outcome, generated int) {
		if c.of[o.Decision] != int32(x.Index) {
			h.coming[o.Replica].inFlight++
			h.coming[o.Replica].held += max(1, o.Request.PromptTokens) + generated
		}
	})
	for i, other := range c.ledgers {
		if i != x.Index {
			h.rates = h.rates.Plus(other.OwnRates(x.At))
		}
	}
	s.agenda.Add(Item{At: x.At + c.Delay, Kind: sharesHeard, Index: x.Index})
	x.At += c.Shares
	s.agenda.Add(x)
}

// ledger returns the ledger of the router that made a decision, or that of the latest
// decision if this one is still to come.
func (c *routerReplicas) ledger(decision int) *fleet.Ledger {
	return c.ledgers[c.of[min(decision, len(c.of)-1)]]
}

// inFlight returns the number of leases on all routers' ledgers.
func (c *routerReplicas) inFlight() int {
	var sum int
	for _, l := range c.ledgers {
		sum += l.InFlight()
	}
	return sum
}

func (c *routerReplicas) copyFrom(o *routerReplicas) {
	into := *c
	*c = *o
	c.ledgers = into.ledgers
	for len(c.ledgers) < len(o.ledgers) {
		c.ledgers = append(c.ledgers, new(fleet.Ledger))
	}
	c.ledgers = c.ledgers[:len(o.ledgers)]
	for i := range o.ledgers {
		c.ledgers[i].CopyFrom(o.ledgers[i])
	}
	c.of = append(into.of[:0], o.of...)
	c.held = append(into.held[:0], o.held...)
	c.others = append(into.others[:0], o.others...)
	c.heard = into.heard[:0]
	for i := range o.heard {
		var to heard
		if i < len(into.heard) {
			to = into.heard[i]
		}
		h := &o.heard[i]
		c.heard = append(c.heard, heard{append(to.beyond[:0], h.beyond...), append(to.shares[:0], h.shares...), append(to.coming[:0], h.coming...), h.rates})
	}
	if c.random = into.random; c.random == nil {
		c.random = new(rand.PCG)
	}
	*c.random = *o.random
}

// engineOf returns a replica's engine.
func (s *Simulator) engineOf(replica int) *engine.Engine {
	p := s.locations[replica]
	return s.hosts[p.host].Engine(p.engine)
}

// each calls f for each request that has not ended, with the tokens that it has generated.
func (s *Simulator) each(f func(o *Outcome, generated int)) {
	for h := range s.laws {
		for i := range s.table.ReplicasOn(h) {
			s.laws[h].Each(i, func(id uint64, generated int) {
				if id&(ofJobs|OfBeside) == 0 {
					f(&s.jobs[id].outcome, generated)
				}
			})
		}
	}
}
