package router

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"gearshift/router/fleet"
)

// attempts bounds how often a choice is made anew because its replica went
// down, or was filled by someone beside this Core, between view and lease.
const attempts = 8

// balancerStream is the PCG stream of the balancer's random numbers.
const balancerStream = 0x62616c616e636572

// Config is what a Core is made of. Ledger, Fallback and Balancer are needed.
type Config struct {
	Ledger *fleet.Ledger
	// Fallback decides whenever the policy cannot.
	Fallback Policy
	Balancer Balancer
	// Forecaster, if set, fills in the views' forecasts.
	Forecaster Forecaster
	// Seed of the random numbers that the balancer gets.
	Seed uint64
	// OnPanic, if not nil, is told what a policy or balancer panicked with, on
	// the panicking stack. It is called within the choice: it must be quick
	// and must not call the Core.
	OnPanic func(name string, value any)
}

// Core makes choices. Its methods may be called from any goroutine.
type Core struct {
	ledger     *fleet.Ledger
	table      *fleet.Table
	balancer   Balancer
	forecaster Forecaster
	onPanic    func(string, any)

	// mu protects all below. It is held from a view to the lease taken on it,
	// so no other choice comes between them.
	mu       sync.Mutex
	policy   seat
	fallback seat
	random   *rand.PCG
	view     fleet.View
}

// seat is a policy in place: with its name, asked once, and its scratch.
type seat struct {
	policy  Policy
	placer  Placer // nil if the balancer chooses the replica
	name    string
	scratch []float32
}

// New makes a Core without a policy: the fallback routes, for the reason
// [ReasonMissing], until [Core.SetPolicy].
func New(c Config) (*Core, error) {
	if c.Ledger == nil || c.Fallback == nil || c.Balancer == nil {
		return nil, errors.New("cannot make a router: it needs a ledger, a fallback policy and a balancer")
	}
	core := &Core{
		ledger:     c.Ledger,
		balancer:   c.Balancer,
		forecaster: c.Forecaster,
		onPanic:    c.OnPanic,
		random:     rand.NewPCG(c.Seed, balancerStream),
	}
	c.Ledger.View(0, &core.view)
	core.table = core.view.Table
	var err error
	if core.fallback, err = core.seat(c.Fallback); err != nil {
		return nil, fmt.Errorf("cannot use fallback policy %q: %w", c.Fallback.Name(), err)
	}
	return core, nil
}

// SetPolicy puts p in charge from the next request on. A policy made for
// another fleet ([Matcher]) is refused with an error, and the one in charge
// stays. Nil leaves the requests to the fallback.
func (c *Core) SetPolicy(p Policy) error {
	next, err := c.seat(p)
	if err != nil {
		return fmt.Errorf("cannot use policy %q: %w", p.Name(), err)
	}
	c.mu.Lock()
	c.policy = next
	c.mu.Unlock()
	return nil
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
	return seat{policy: p, placer: placer, name: p.Name(), scratch: make([]float32, max(0, p.Scratch()))}, nil
}

// PolicyName names the policy in charge, or the fallback if there is none.
func (c *Core) PolicyName() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.policy.policy == nil {
		return c.fallback.name
	}
	return c.policy.name
}

// Ledger is the ledger that the Core chooses on.
func (c *Core) Ledger() *fleet.Ledger { return c.ledger }

// Table is the fleet that the Core chooses from.
func (c *Core) Table() *fleet.Table { return c.table }

// Route notes the request's arrival at the time now, chooses its variant and
// replica, and takes the place there. The caller must end the lease. Errors:
// [ErrNoReplica], [ErrSaturated], [ErrUnknownTask].
func (c *Core) Route(r *fleet.Request, now time.Duration) (Choice, error) {
	return c.route(-1, r, now)
}

// RoutePinned is Route for a request whose variant the caller has chosen: the
// policy is not asked, and no other variant stands in. Errors: as of Route, of
// that variant alone, and [ErrUnknownVariant].
func (c *Core) RoutePinned(variant int, r *fleet.Request, now time.Duration) (Choice, error) {
	if variant < 0 || variant >= len(c.table.Variants) {
		return Choice{}, fmt.Errorf("%w: index %d of %d", ErrUnknownVariant, variant, len(c.table.Variants))
	}
	return c.route(variant, r, now)
}

func (c *Core) route(pinned int, r *fleet.Request, now time.Duration) (Choice, error) {
	if r.Task < 0 || r.Task >= len(c.table.Tasks) {
		return Choice{}, fmt.Errorf("%w: index %d of %d", ErrUnknownTask, r.Task, len(c.table.Tasks))
	}
	// Arrival, view, choice and lease are one atomic step, under one lock.
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger.Arrive(now)
	random := c.random.Uint64()
	for range attempts {
		c.ledger.View(now, &c.view)
		if c.forecaster != nil {
			c.forecaster.Forecast(&c.view, r)
		}
		if err := c.hopeless(pinned); err != nil {
			return Choice{}, err
		}
		choice := c.choose(pinned, r, random)
		if lease, ok := c.ledger.Begin(choice.Replica); ok {
			choice.Lease = lease
			return choice, nil
		}
	}
	return Choice{}, ErrSaturated
}

// hopeless says why no replica can take the request, or returns nil if one
// can. A pinned variant below zero stands for any.
func (c *Core) hopeless(pinned int) error {
	up := false
	for i := range c.table.Replicas {
		if pinned >= 0 && c.table.Replicas[i].Variant != pinned {
			continue
		}
		if c.view.Available(i) {
			return nil
		}
		up = up || !c.view.Down[i]
	}
	if up {
		return ErrSaturated
	}
	return ErrNoReplica
}
