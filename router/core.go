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

// attempts bounds how often a replica is picked again because other requests took places
// meanwhile. Each time at least one of them has succeeded, so only very many concurrent
// requests come near the bound. The last attempt takes the place whatever others did.
const attempts = 64

// balancerStream sets the balancer's random numbers apart from others of a seed.
const balancerStream = 0x62616c616e636572

// Config describes a Core. Ledger, Fallback and Balancer are required.
type Config struct {
	Ledger *fleet.Ledger
	// Fallback decides whenever the policy cannot.
	Fallback Policy
	// Spare, if set, decides instead of the fallback while the policy is doubted; see [Core.Doubt].
	Spare    Policy
	Balancer Balancer
	// Forecaster, if set, fills in the views' forecasts.
	Forecaster Forecaster
	// Gate, if set, decides where a request may begin; see [Gate].
	Gate Gate
	// Seed is that of the random numbers that the balancer gets.
	Seed uint64
	// OnPanic, if set, is called with what a policy or balancer panicked with, on the
	// panicking stack. It is called within the choice, by any goroutine.
	OnPanic func(name string, value any)
}

// Core makes choices. Its methods may be called from any goroutine.
//
// Requests are decided concurrently, each on a view of its own. Only the last step is
// atomic: a place is taken only if no other request has taken one on that host since the
// view. If one has, the replica is picked again on a new view; the variant stays as decided
// a few microseconds before. So requests that come at the same moment spread as the
// balancer intends, and wait for no lock except the ledger's.
type Core struct {
	rules
	ledger    *fleet.Ledger
	policies  atomic.Pointer[policySet]
	changing  sync.Mutex // serialises changes of policies; readers do not take it
	seed      uint64
	routed    atomic.Uint64 // requests so far, which number their random draws
	decisions sync.Pool     // of *Decision
}

// rules are what all decisions of a Core share. They never change.
type rules struct {
	table    *fleet.Table
	balancer Balancer
	onPanic  func(string, any)
}

// boundPolicy is a policy that has been matched with the fleet, with what is asked of it
// once instead of at each decision.
type boundPolicy struct {
	policy        Policy
	placer        Placer // nil if the balancer chooses the replica
	name          string
	panicReported *atomic.Bool // if set, only its first panic is reported

	explainer Explainer // nil if it explains nothing
	doubtable bool
}

// New makes a Core without a policy. The fallback routes, for the reason [ReasonMissing],
// until [Core.SetPolicy].
func New(c Config) (*Core, error) {
	if c.Ledger == nil || c.Fallback == nil || c.Balancer == nil {
		return nil, errors.New("cannot make a router: it needs a ledger, a fallback policy and a balancer")
	}
	core := &Core{rules: c.rules(), ledger: c.Ledger, seed: c.Seed ^ balancerStream}
	core.decisions.New = func() any { return &Decision{rules: &core.rules, ledger: core.ledger} }
	spare, err := core.bind(c.Spare)
	if err != nil {
		return nil, fmt.Errorf("cannot use policy %q while others are doubted: %w", c.Spare.Name(), err)
	}
	core.policies.Store(&policySet{gate: c.Gate, forecaster: c.Forecaster, spare: spare})
	if err := core.SetFallback(c.Fallback); err != nil {
		return nil, err
	}
	return core, nil
}

// rules returns the configuration's rules.
func (c *Config) rules() rules {
	return rules{table: c.Ledger.Table(), balancer: c.Balancer, onPanic: c.OnPanic}
}

// SetPolicy puts p in charge from the next request on. It refuses a policy made for another
// fleet ([Matcher]) with an error, and the one in charge stays. Nil leaves the requests to
// the fallback. A trial goes on, with counts at zero: it is compared with another policy
// now.
func (c *Core) SetPolicy(p Policy) error {
	next, err := c.bind(p)
	if err != nil {
		return fmt.Errorf("cannot use policy %q: %w", p.Name(), err)
	}
	return c.change(func(l *policySet) error {
		c.succeed(l, next)
		if l.trial != nil {
			l.trial = newTrial(l.trial.boundPolicy, l.trial.share, c.table)
		}
		return nil
	})
}

// SetFallback has p decide whenever the policy cannot, from the next request on. It refuses a policy made for
// another fleet with an error, and the fallback stays.
func (c *Core) SetFallback(p Policy) error {
	next, err := c.bind(p)
	if err != nil {
		return fmt.Errorf("cannot use fallback policy %q: %w", p.Name(), err)
	}
	return c.change(func(l *policySet) error {
		l.fallback = next
		return nil
	})
}

// SetGate replaces the gate by g, from the next request on. Nil is none.
func (c *Core) SetGate(g Gate) {
	c.change(func(l *policySet) error {
		l.gate = g
		return nil
	})
}

// Doubt sets whether the spare, or without one the fallback, decides instead of policies that are
// [Doubtable], the one on trial included. They stay in charge and on trial.
func (c *Core) Doubt(doubted bool) {
	c.change(func(l *policySet) error {
		l.doubted = doubted
		return nil
	})
}

// Doubted reports whether another decides because the policy in charge is doubted.
func (c *Core) Doubted() bool {
	l := c.policies.Load()
	return l.doubted && l.policy.doubtable
}

// Revise has requests decided by other forecasts and another gate from the next one on, and each policy
// replaced by what remake returns for it: the one in charge, the one before, the fallback and the spare.
// One on trial stays as it is. Where remake fails, the policy stays too, and Revise returns the errors.
func (c *Core) Revise(f Forecaster, g Gate, remake func(Policy) (Policy, error)) error {
	var faults []error
	again := func(b *boundPolicy) {
		if b.policy == nil {
			return
		}
		p, err := remake(b.policy)
		if err == nil {
			var next boundPolicy
			if next, err = c.bind(p); err == nil {
				next.panicReported = b.panicReported
				*b = next
			}
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("cannot make policy %q again: %w", b.name, err))
		}
	}
	_ = c.change(func(l *policySet) error {
		l.gate, l.forecaster = g, f
		again(&l.policy)
		again(&l.fallback)
		again(&l.spare)
		if l.before != nil {
			before := *l.before
			again(&before)
			l.before = &before
		}
		return nil
	})
	return errors.Join(faults...)
}

func (c *Core) bind(p Policy) (boundPolicy, error) {
	if p == nil {
		return boundPolicy{}, nil
	}
	if m, ok := p.(Matcher); ok {
		if err := m.Match(c.table); err != nil {
			return boundPolicy{}, err
		}
	}
	placer, _ := p.(Placer)
	explainer, _ := p.(Explainer)
	_, doubtable := p.(Doubtable)
	return boundPolicy{policy: p, placer: placer, name: p.Name(), explainer: explainer, doubtable: doubtable}, nil
}

// PolicyName returns the name of the policy in charge, or of the fallback if there is none.
func (c *Core) PolicyName() string {
	set := c.policies.Load()
	if set.policy.policy != nil {
		return set.policy.name
	}
	return set.fallback.name
}

// Ledger returns the ledger that the Core chooses on.
func (c *Core) Ledger() *fleet.Ledger { return c.ledger }

// Table returns the fleet that the Core chooses from.
func (c *Core) Table() *fleet.Table { return c.table }

// Route chooses the variant and replica of a request at the time now, and takes a place
// there. The caller must end the lease. The caller must have counted the request's arrival
// ([fleet.Ledger.Arrive]), once, however often it routes it.
//
// Pinned is a variant that the caller has chosen, for which the policy is not asked and no
// other variant stands in; below zero the policy chooses. The observer, if not nil, sees
// the view and the choice.
//
// Route returns [ErrNoReplica], also as [ErrAsleep], [ErrSaturated] or [ErrLate], about the pinned variant alone
// if there is one, or [ErrUnknownTask] or [ErrUnknownVariant].
func (c *Core) Route(pinned int, r *fleet.Request, now time.Duration, o Observer) (Choice, error) {
	if err := c.known(pinned, r); err != nil {
		return Choice{}, err
	}
	random := c.draw()
	d := c.decisions.Get().(*Decision)
	defer c.decisions.Put(d)
	d.policies = c.policies.Load()
	d.policy = &d.policies.policy
	d.sample(r, random)
	if err := d.look(pinned, r, now); err != nil {
		return Choice{}, err
	}
	choice := d.choose(pinned, r, random)
	if !choice.Ruled() {
		d.try(&choice, r, random)
	}
	for n := range attempts {
		if d.take(&choice, pinned, r, n == attempts-1) {
			if o != nil {
				d.show(o, choice, r)
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

// known returns an error that names the index of the request that is not in the table.
func (c *Core) known(pinned int, r *fleet.Request) error {
	if pinned >= len(c.table.Variants) {
		return fmt.Errorf("%w: index %d of %d", ErrUnknownVariant, pinned, len(c.table.Variants))
	}
	if r.Task < 0 || r.Task >= len(c.table.Tasks) {
		return fmt.Errorf("%w: index %d of %d", ErrUnknownTask, r.Task, len(c.table.Tasks))
	}
	return nil
}

// draw returns the next request's random number. It follows from the seed and the number of
// requests so far, so that concurrent requests share no generator.
func (c *Core) draw() uint64 {
	var source rand.PCG
	source.Seed(c.seed, c.routed.Add(1))
	return source.Uint64()
}
