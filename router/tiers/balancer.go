package tiers

import (
	"sync"
	"sync/atomic"

	"gearshift/internal/splitmix"
	"gearshift/router/fleet"
)

// Picker chooses a replica of a variant, as a balancer does.
type Picker interface {
	Name() string
	Pick(v *fleet.View, r *fleet.Request, variant int, random uint64) int
}

// Balancer draws a tier and leaves the choice within it to another balancer. A tier weighs what the
// hosts compute that have an available replica of the variant, times the tier's share of all traffic
// for each unit of its compute. So a variant with one replica in a large tier and four in a small one
// is divided by those five hosts. It is a [Weigher], and may be used from any goroutine.
type Balancer struct {
	within  Picker
	members []Membership
	tiers   []Tier
	factors atomic.Pointer[[]float64] // by tier: the share for each unit of compute
	views   sync.Pool                 // of *within
}

// Membership names the tier that a replica is in, and what its host computes.
type Membership struct {
	Tier    int
	Compute float64
}

// NewBalancer returns a balancer of tiers, within which p chooses, and members has each replica. Shares
// are those of the tiers' compute until they are set.
func NewBalancer(p Picker, members []Membership, tiers []Tier) *Balancer {
	b := &Balancer{within: p, members: members, tiers: tiers, views: sync.Pool{New: func() any { return &within{of: make([]int, 0, len(members))} }}}
	b.Weigh(Shares(tiers))
	return b
}

// Name returns that of the balancer within tiers.
func (b *Balancer) Name() string { return b.within.Name() }

// Weigh implements [Weigher].
func (b *Balancer) Weigh(shares []float64) {
	list := make([]float64, len(shares))
	for i, share := range shares {
		list[i] = share / b.tiers[i].Compute
	}
	b.factors.Store(&list)
}

// maxTiers is how many tiers there may be; of more none is drawn.
const maxTiers = 16

// within is a view of one tier.
type within struct {
	view fleet.View
	of   []int // the variant's replicas there
}

// Pick implements router.Balancer. The view stays as it is: others may read it meanwhile.
func (b *Balancer) Pick(v *fleet.View, r *fleet.Request, variant int, random uint64) int {
	if len(b.tiers) > maxTiers {
		return b.within.Pick(v, r, variant, random)
	}
	of := v.ReplicasOf(variant)
	tier := b.draw(v, of, random)
	if tier < 0 {
		return -1
	}
	x := b.views.Get().(*within)
	defer b.views.Put(x)
	x.of = x.of[:0]
	for _, i := range of {
		if b.members[i].Tier == tier {
			x.of = append(x.of, i)
		}
	}
	x.view.Narrow(v, variant, x.of)
	return b.within.Pick(&x.view, r, variant, splitmix.Next(random))
}

// draw returns a tier with an available replica, by its weight; −1 if there is none.
func (b *Balancer) draw(v *fleet.View, of []int, random uint64) int {
	var open [maxTiers]float64
	factors, sum, any := *b.factors.Load(), 0.0, -1
	for _, i := range of {
		if p := &b.members[i]; v.Available(i) {
			weight := max(factors[p.Tier]*p.Compute, 1e-12) // rather than nowhere
			open[p.Tier] += weight
			sum, any = sum+weight, p.Tier
		}
	}
	drawn := float64(random>>11) / (1 << 53) * sum
	for t, x := range open[:len(b.tiers)] {
		if x > 0 && drawn < x {
			return t
		}
		drawn -= x
	}
	return any
}
