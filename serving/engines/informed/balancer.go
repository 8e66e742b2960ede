package informed

import (
	"sync"
	"sync/atomic"
	"time"

	"gearshift/internal/splitmix"
	"gearshift/router/balance"
	"gearshift/router/fleet"
	"gearshift/router/signals"
)

// Balancer chooses among the replicas of a variant by what they say of their load, by the counter of
// that variant. It implements router.Balancer.
type Balancer struct {
	name  string
	table *fleet.Table
	rule  Rule
	means []time.Duration
	// without chooses while nothing is heard of a variant's replicas.
	without balance.PowerOfK

	rules      atomic.Pointer[rules]
	changing   sync.Mutex     // held while rules are replaced
	staleAfter atomic.Int64   // see [Config.StaleAfter]
	last       []atomic.Int64 // by variant, when one of its replicas was last heard; below zero for never
}

// Rule makes the chooser of a balancer that compares by a counter.
type Rule struct {
	// Make gets the estimates of how long a request of each variant takes; nil if they are unknown.
	Make func(c signals.Counter, means []time.Duration) balance.Chooser
	// Hears says that the rule compares what replicas say of themselves, so that it cannot choose
	// while they say nothing.
	Hears bool
	// Polls says that it may want replicas asked before it chooses.
	Polls bool
	// Probes is how many replicas it asks for each request, on average.
	Probes float64
	// Tiers is, by replica, the tier that it is in; nil if there are none.
	Tiers []int
}

// rules are those in force. They never change.
type rules struct {
	changes []signals.Change // by variant
	by      [3]*balance.Informed
}

// NewBalancer makes a balancer of the name, which chooses by the rule with the counters of the
// configuration. Means are estimates of how long a request of each variant takes on one core; nil
// is unknown.
func NewBalancer(name string, t *fleet.Table, rule Rule, means []time.Duration, c Config) *Balancer {
	b := &Balancer{name: name, table: t, rule: rule, means: means, without: balance.PowerOfK{K: 2}, last: make([]atomic.Int64, len(t.Variants))}
	for i := range b.last {
		b.last[i].Store(-1)
	}
	b.staleAfter.Store(int64(c.StaleAfter))
	first := &rules{changes: make([]signals.Change, len(t.Variants))}
	for i, v := range t.Variants {
		counter := c.counter(v.Name)
		first.changes[i] = signals.Change{From: counter, To: counter}
	}
	b.fill(first, nil)
	b.rules.Store(first)
	return b
}

// fill makes what the counters in use need, and keeps of the rules before what they have learnt.
func (b *Balancer) fill(r, before *rules) {
	for _, change := range r.changes {
		for _, c := range []signals.Counter{change.From, change.To} {
			if before != nil && r.by[c] == nil {
				r.by[c] = before.by[c]
			}
			if r.by[c] == nil {
				means := b.means
				if c != signals.ByWork { // rules add them to loads in this unit
					means = nil
				}
				r.by[c] = balance.NewInformed(b.name, b.table, b.rule.Make(c, b.means), means)
				r.by[c].Tiers = b.rule.Tiers
			}
		}
	}
}

// Name implements router.Balancer.
func (b *Balancer) Name() string { return b.name }

// counterStream sets the number that picks a counter apart from the one that picks a replica.
const counterStream = 0x636f756e746572

// Pick implements router.Balancer. A rule that may want replicas asked before it chooses does so in
// [Balancer.Again]: until then the choice is by the requests in flight.
func (b *Balancer) Pick(v *fleet.View, r *fleet.Request, variant int, random uint64) int {
	if b.rule.Polls {
		return b.without.Pick(v, r, variant, random)
	}
	return b.choose(v, r, variant, random)
}

// Again returns the replica that the rule chooses, after replicas were asked, for a request that has a
// place on a replica: one of the same variant and tier. With tiers, v is of use to nothing else then.
func (b *Balancer) Again(v *fleet.View, r *fleet.Request, replica int, random uint64) int {
	variant := b.table.Replicas[replica].Variant
	if tiers := b.rule.Tiers; tiers != nil {
		var of []int
		for _, i := range v.ReplicasOf(variant) {
			if tiers[i] == tiers[replica] {
				of = append(of, i)
			}
		}
		v.Narrow(v, variant, of)
	}
	return b.choose(v, r, variant, random)
}

// choose returns the replica that the rule chooses.
func (b *Balancer) choose(v *fleet.View, r *fleet.Request, variant int, random uint64) int {
	if b.rule.Hears && !b.heardOf(variant, v.Now) {
		return b.without.Pick(v, r, variant, random)
	}
	return b.rules.Load().of(variant, random, v.Now).Pick(v, r, variant, random)
}

// heardOf reports whether a replica of the variant has been heard lately.
func (b *Balancer) heardOf(variant int, now time.Duration) bool {
	at := b.last[variant].Load()
	return at >= 0 && int64(now)-at < b.staleAfter.Load()
}

// of returns the rule that a request uses.
func (x *rules) of(variant int, random uint64, now time.Duration) *balance.Informed {
	change := &x.changes[variant]
	if change.From == change.To {
		return x.by[change.To]
	}
	return x.by[change.Counter(splitmix.Mix(random^counterStream), now)]
}

// set puts the counters of the configuration in force, for a growing share of the requests. A rule
// that begins is taught by known what replicas have said.
func (b *Balancer) set(c *Config, now time.Duration, known func(replica int) (signals.Known, bool)) {
	b.changing.Lock()
	defer b.changing.Unlock()
	b.staleAfter.Store(int64(c.StaleAfter))
	before := b.rules.Load()
	next := &rules{changes: make([]signals.Change, len(before.changes))}
	for i, v := range b.table.Variants {
		next.changes[i] = before.changes[i].Next(c.counter(v.Name), c.ChangeOver, now)
		if next.changes[i].Share(now) >= 1 {
			next.changes[i].From = next.changes[i].To
		}
	}
	b.fill(next, before)
	for c, rule := range next.by {
		if rule == nil || before.by[c] != nil {
			continue
		}
		for i := range b.table.Replicas {
			if k, ok := known(i); ok {
				rule.Hear(i, k.Counters, balance.Published, k.At)
			}
		}
	}
	b.rules.Store(next)
}

// hear has every rule in use hear what a replica said.
func (b *Balancer) hear(replica int, k *signals.Known, by balance.Source) {
	if k.Source > signals.StandIn {
		b.last[b.table.Replicas[replica].Variant].Store(int64(k.At))
	}
	for _, rule := range b.rules.Load().by {
		if rule != nil {
			rule.Hear(replica, k.Counters, by, k.At)
		}
	}
}

// answered has every rule in use learn how long an answer took.
func (b *Balancer) answered(replica int, took, now time.Duration) {
	for _, rule := range b.rules.Load().by {
		if rule != nil {
			rule.Answered(replica, took, now)
		}
	}
}

// shares returns by which counters the requests for the variant are compared now, and which share of
// them by the second one.
func (b *Balancer) shares(variant int, now time.Duration) (from, to signals.Counter, share float64) {
	c := b.rules.Load().changes[variant]
	return c.From, c.To, c.Share(now)
}
