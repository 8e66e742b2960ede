package router

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"gearshift/router/fleet"
)

// attempts bounds how often a replica is picked again because others took places
// meanwhile. Each time at least one of them has got its own, so it takes a crowd
// to come near it. The last attempt takes the place whatever others did.
const attempts = 64

// balancerStream sets the balancer's random numbers apart from others of a seed.
const balancerStream = 0x62616c616e636572

// Config is what a Core is made of. Ledger, Fallback and Balancer are needed.
type Config struct {
	Ledger *fleet.Ledger
	// Fallback decides whenever the policy cannot.
	Fallback Policy
	Balancer Balancer
	// Forecaster, if set, fills in the views' forecasts.
	Forecaster Forecaster
	// Gate, if set, says where a request may be begun; see [Gate].
	Gate Gate
	// Seed of the random numbers that the balancer gets.
	Seed uint64
	// OnPanic, if not nil, is told what a policy or balancer panicked with, on
	// the panicking stack. It is called within the choice, by any goroutine.
	OnPanic func(name string, value any)
}

// Core makes choices. Its methods may be called from any goroutine.
//
// Requests are decided side by side, each on a view of its own. What comes at
// once is the last step: a place is taken only if no other has been on that host
// since the view. If one has, the replica is picked again, on what is now; the variant
// stays as decided a few microseconds before. So requests that come at the same moment
// spread as the balancer says, and wait for no lock but the ledger's.
type Core struct {
	rules
	ledger    *fleet.Ledger
	lineup    atomic.Pointer[lineup]
	changing  sync.Mutex // lets one at a time replace the lineup
	seed      uint64
	routed    atomic.Uint64 // requests so far, which number their random draws
	decisions sync.Pool     // of *Decision
}

// rules are what decisions have in common, and never change.
type rules struct {
	table      *fleet.Table
	balancer   Balancer
	forecaster Forecaster
	onPanic    func(string, any)
	fallback   seat
}

// seat is a policy in place, with its name, asked once.
type seat struct {
	policy Policy
	placer Placer // nil if the balancer chooses the replica
	name   string
	told   *atomic.Bool // if set: of its panics, only the first is told

	explainer Explainer // nil if it tells nothing
}

// New makes a Core without a policy: the fallback routes, for the reason
// [ReasonMissing], until [Core.SetPolicy].
func New(c Config) (*Core, error) {
	if c.Ledger == nil || c.Fallback == nil || c.Balancer == nil {
		return nil, errors.New("cannot make a router: it needs a ledger, a fallback policy and a balancer")
	}
	core := &Core{rules: c.rules(), ledger: c.Ledger, seed: c.Seed ^ balancerStream}
	core.decisions.New = func() any { return &Decision{rules: &core.rules, ledger: core.ledger} }
	core.lineup.Store(&lineup{gate: c.Gate})
	var err error
	if core.fallback, err = core.seat(c.Fallback); err != nil {
		return nil, fmt.Errorf("cannot use fallback policy %q: %w", c.Fallback.Name(), err)
	}
	return core, nil
}

// rules are the configuration's, but for the fallback.
func (c *Config) rules() rules {
	return rules{table: c.Ledger.Table(), balancer: c.Balancer, forecaster: c.Forecaster, onPanic: c.OnPanic}
}

// SetPolicy puts p in charge from the next request on. A policy made for
// another fleet ([Matcher]) is refused with an error, and the one in charge
// stays. Nil leaves the requests to the fallback. A trial goes on,
// with counts at zero: it has another beside it.
func (c *Core) SetPolicy(p Policy) error {
	next, err := c.seat(p)
	if err != nil {
		return fmt.Errorf("cannot use policy %q: %w", p.Name(), err)
	}
	return c.change(func(l *lineup) error {
		c.succeed(l, next)
		if l.trial != nil { // it has another beside it now
			l.trial = newTrial(l.trial.seat, l.trial.share, c.table)
		}
		return nil
	})
}

// SetGate puts g in the place of the gate, from the next request on. Nil is none.
func (c *Core) SetGate(g Gate) {
	c.change(func(l *lineup) error {
		l.gate = g
		return nil
	})
}

func (c *Core) seat(p Policy) (seat, error) {
	if p == nil {
		return seat{}, nil
	}
	if m, ok := p.(Matcher); ok {
		if err := m.Match(c.table); err != nil {
			return seat{}, err
		}
	}
	placer, _ := p.(Placer)
	explainer, _ := p.(Explainer)
	return seat{policy: p, placer: placer, name: p.Name(), explainer: explainer}, nil
}

// PolicyName names the policy in charge, or the fallback if there is none.
func (c *Core) PolicyName() string {
	if s := &c.lineup.Load().policy; s.policy != nil {
		return s.name
	}
	return c.fallback.name
}

// Ledger is the ledger that the Core chooses on.
func (c *Core) Ledger() *fleet.Ledger { return c.ledger }

// Table is the fleet that the Core chooses from.
func (c *Core) Table() *fleet.Table { return c.table }

// Route chooses the variant and replica of a request at the time now, and takes the
// place there; the caller must end the lease. The ledger has heard of its arrival,
// once, however often it is tried ([fleet.Ledger.Arrive]). For a variant that the
// caller has chosen, which is not below zero, the policy is not asked, and no other
// stands in. The witness, if there is one, is shown what was known. Errors:
// [ErrNoReplica], [ErrSaturated] and [ErrLate], of that variant alone if there is one;
// [ErrUnknownTask], [ErrUnknownVariant].
func (c *Core) Route(pinned int, r *fleet.Request, now time.Duration, w Witness) (Choice, error) {
	if err := c.known(pinned, r); err != nil {
		return Choice{}, err
	}
	random := c.draw()
	d := c.decisions.Get().(*Decision)
	defer c.decisions.Put(d)
	d.lineup = c.lineup.Load()
	d.policy = &d.lineup.policy
	d.sample(r, random)
	if err := d.look(pinned, r, now); err != nil {
		return Choice{}, err
	}
	choice := d.choose(pinned, r, random)
	if pinned < 0 {
		d.try(&choice, r, random)
	}
	for n := range attempts {
		if d.take(&choice, pinned, r, n == attempts-1) {
			if w != nil {
				d.show(w, choice, r)
			}
			return choice, nil
		}
		if err := d.look(pinned, r, now); err != nil {
			return Choice{}, err
		}
		choice = d.again(choice, pinned, r, random)
	}
	return Choice{}, ErrSaturated
}

// known says which index of the request is not in the table.
func (c *Core) known(pinned int, r *fleet.Request) error {
	if pinned >= len(c.table.Variants) {
		return fmt.Errorf("%w: index %d of %d", ErrUnknownVariant, pinned, len(c.table.Variants))
	}
	if r.Task < 0 || r.Task >= len(c.table.Tasks) {
		return fmt.Errorf("%w: index %d of %d", ErrUnknownTask, r.Task, len(c.table.Tasks))
	}
	return nil
}

// draw is the next request's random number.
func (c *Core) draw() uint64 {
	var source rand.PCG
	source.Seed(c.seed, c.routed.Add(1))
	return source.Uint64()
}
