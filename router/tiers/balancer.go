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

// Balancer draws a tier by the shares, of those that have an available replica of the variant, and
// leaves the choice within it to another balancer. It is a [Weigher], and may be used from any
// goroutine.
type Balancer struct {
	within Picker
	tiers  []int // of each replica
	n      int
	shares atomic.Pointer[[]float64]
	views  sync.Pool // of *within
}

// NewBalancer returns a balancer of n tiers, within which p chooses. Of has the tier of each
// replica. All shares are equal until they are set.
func NewBalancer(p Picker, of []int, n int) *Balancer {
	b := &Balancer{within: p, tiers: of, n: n, views: sync.Pool{New: func() any { return &within{} }}}
	b.Weigh(Shares(make([]Tier, n)))
	return b
}

// Name returns that of the balancer within tiers.
func (b *Balancer) Name() string { return b.within.Name() }

// Weigh implements [Weigher].
func (b *Balancer) Weigh(shares []float64) {
	list := append([]float64(nil), shares...)
	b.shares.Store(&list)
}

// maxTiers is how many tiers there may be; of more none is drawn.
const maxTiers = 16

// within is a view of one tier.
type within struct {
	view fleet.View
	down []bool
}

// Pick implements router.Balancer. The view stays as it is: others may read it meanwhile.
func (b *Balancer) Pick(v *fleet.View, r *fleet.Request, variant int, random uint64) int {
	if b.n > maxTiers {
		return b.within.Pick(v, r, variant, random)
	}
	of := v.ReplicasOf(variant)
	tier := b.draw(v, of, random)
	if tier < 0 {
		return -1
	}
	x := b.views.Get().(*within)
	defer b.views.Put(x)
	x.view, x.down = *v, append(x.down[:0], v.Down...)
	x.view.Down = x.down
	for _, i := range of {
		x.down[i] = x.down[i] || b.tiers[i] != tier
	}
	return b.within.Pick(&x.view, r, variant, splitmix.Next(random))
}

// draw is a tier with an available replica, by the shares; −1 if there is none.
func (b *Balancer) draw(v *fleet.View, of []int, random uint64) int {
	var open [maxTiers]float64
	shares, sum, any := *b.shares.Load(), 0.0, -1
	for _, i := range of {
		if t := b.tiers[i]; open[t] == 0 && v.Available(i) {
			open[t] = max(shares[t], 1e-12) // rather than nowhere
			sum, any = sum+open[t], t
		}
	}
	drawn := float64(random>>11) / (1 << 53) * sum
	for t, x := range open[:b.n] {
		if x > 0 && drawn < x {
			return t
		}
		drawn -= x
	}
	return any
}
