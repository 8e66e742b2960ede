package tiers

import (
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
}

// NewBalancer returns a balancer of n tiers. Of has the tier of each replica. All shares are equal
// until they are set.
func NewBalancer(within Picker, of []int, n int) *Balancer {
	b := &Balancer{within: within, tiers: of, n: n}
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

const (
	most  = 16   // tiers
	words = 4096 // replicas of a variant, which a mask on the stack has room for
)

// Pick implements router.Balancer. Of more tiers or replicas than a mask has room for it draws
// none.
func (b *Balancer) Pick(v *fleet.View, r *fleet.Request, variant int, random uint64) int {
	of := v.ReplicasOf(variant)
	if b.n > most || len(of) > words {
		return b.within.Pick(v, r, variant, random)
	}
	tier := b.draw(v, of, random)
	if tier < 0 {
		return -1
	}
	var hidden [words / 64]uint64
	for k, i := range of {
		if b.tiers[i] != tier && !v.Down[i] {
			hidden[k/64] |= 1 << (k % 64)
			v.Down[i] = true
		}
	}
	picked := b.within.Pick(v, r, variant, splitmix.Next(random))
	for k, i := range of {
		if hidden[k/64]&(1<<(k%64)) != 0 {
			v.Down[i] = false
		}
	}
	return picked
}

// draw is a tier with an available replica, by the shares; −1 if there is none.
func (b *Balancer) draw(v *fleet.View, of []int, random uint64) int {
	var open [most]float64
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
