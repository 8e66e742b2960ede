package env

import (
	"fmt"
	"math/rand/v2"
	"time"

	"gearshift/env/engine"
	"gearshift/router/fleet"
)

// Routers is how many routers share the fleet, and what they know of each other's
// requests. The zero value is one router, which sees them all.
type Routers struct {
	// Number of routers. Each request comes to one of them, drawn at random as a
	// load balancer before them does. A router counts its own requests and their
	// tokens alone. It knows how many they are, and estimates the rate at which
	// requests come to all by that at which they come to it.
	Number int
	// Gauges is how often each router reads the engines' gauges, one after the
	// other: requests, and tokens in the KV cache. Until it does so again, it takes
	// what it found beside its own for what others have there. Zero is never.
	Gauges time.Duration
}

func (r Routers) validate() error {
	if r.Number < 0 || r.Gauges < 0 {
		return fmt.Errorf("%d routers that read gauges each %v; neither may be negative", r.Number, r.Gauges)
	}
	return nil
}

// crew is several routers, each with a ledger of its own requests, which gauges
// correct as they do in the live router.
type crew struct {
	Routers
	table   *fleet.Table
	ledgers []*fleet.Ledger
	of      []int32   // router, by decision
	held    []int     // tokens of the present router's requests, by replica
	others  []int     // the same of one that reads
	random  *rand.PCG // who gets the next request
}

// crewStream sets the draws of routers apart from others of a seed.
const crewStream = 0x726f7574657273

func newCrew(r Routers, t *fleet.Table, seed uint64) *crew {
	if r.Number < 2 {
		return nil
	}
	c := &crew{
		Routers: r, table: t,
		held: make([]int, len(t.Replicas)), others: make([]int, len(t.Replicas)),
		random: rand.NewPCG(seed, crewStream),
	}
	for range r.Number {
		l := fleet.NewLedger(t)
		l.ShareRate(r.Number)
		c.ledgers = append(c.ledgers, l)
	}
	return c
}

// join has the simulator show to the ledger, or to those of several routers, what is up.
func (s *Simulator) join(l *fleet.Ledger, c *crew) {
	s.crew, s.ledgers = c, append(s.ledgers[:0], l)
	if c != nil {
		s.ledgers = append(s.ledgers[:0], c.ledgers...)
	}
}

// next draws the router of the next request, and returns its ledger.
func (c *crew) next(s *Simulator) *fleet.Ledger {
	router := int32(rand.New(c.random).IntN(c.Number))
	c.of = append(c.of, router)
	c.count(s, router, c.held)
	return c.ledgers[router]
}

// Held implements fleet.Holder: the tokens of the present router's own requests.
func (c *crew) Held(replica int) int { return c.held[replica] }

// count writes the tokens that the router's requests hold, by replica.
func (c *crew) count(s *Simulator, router int32, into []int) {
	clear(into)
	s.each(func(o *Outcome, generated int) {
		if c.of[o.Decision] == router {
			into[o.Replica] += max(1, o.Request.PromptTokens) + generated
		}
	})
}

// schedule puts each router's first reading of the gauges on the agenda: they take turns.
func (c *crew) schedule(a *agenda) {
	if c == nil || c.Gauges == 0 {
		return
	}
	for i := range c.Number {
		a.add(item{at: c.Gauges * time.Duration(i) / time.Duration(c.Number), what: gaugesRead, index: i})
	}
}

// scrape corrects a router's ledger by the gauges of now, as the live router does:
// by what an engine has beside the router's own.
func (c *crew) scrape(s *Simulator, router int) {
	c.count(s, int32(router), c.others)
	l := c.ledgers[router]
	for i := range c.table.Replicas {
		e := s.engineOf(i)
		held := e.Held()
		if size := c.table.Replicas[i].KVTokens; size > 0 {
			held = min(held, size)
		}
		l.Correct(i, max(0, e.Load()-l.InFlightOn(i)), max(0, held-c.others[i]))
	}
}

// ledger is that of the router that a decision was made by, or the last one by then.
func (c *crew) ledger(decision int) *fleet.Ledger {
	return c.ledgers[c.of[min(decision, len(c.of)-1)]]
}

// inFlight is the number of leases on all routers' ledgers.
func (c *crew) inFlight() int {
	var sum int
	for _, l := range c.ledgers {
		sum += l.InFlight()
	}
	return sum
}

func (c *crew) copyFrom(o *crew) {
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
	if c.random = into.random; c.random == nil {
		c.random = new(rand.PCG)
	}
	*c.random = *o.random
}

// engineOf is a replica's engine.
func (s *Simulator) engineOf(replica int) *engine.Engine {
	p := s.place[replica]
	return s.hosts[p.host].Engine(p.engine)
}

// each calls f for each request that is not ended, with the tokens that it has
// generated.
func (s *Simulator) each(f func(o *Outcome, generated int)) {
	for h := range s.hosts {
		for i := range s.table.ReplicasOn(h) {
			s.hosts[h].Each(i, func(id uint64, generated int) { f(&s.jobs[id].outcome, generated) })
		}
	}
}
