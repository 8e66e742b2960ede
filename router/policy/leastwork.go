package policy

import (
	"math"

	"gearshift/router/fleet"
)

// LeastWork balances by outstanding work across sizes: it chooses the variant
// with the greatest
//
//	weight·quality − w·work
//
// among those whose work is at most b; if none is, the one with the least.
//
// The work of a variant is that of its replica with the least, joined by the
// request: the time that the requests in flight, each of mean length, take at
// the speed of a full batch, as a share of the time that one is allowed,
//
//	(n+1) · step(N)/N / deadline
//
// where N is the largest batch that keeps the request's deadline and the KV
// cache next to the host's busy neighbours. For a variant whose batches the
// deadline bounds it is about 1 at n+1 = N, less where the cache does: that makes
// work comparable across sizes, so that one bound can do for all. Where the request has a
// deadline to its first token or to its end, its work is at least the share of that which
// it is forecast to fill, of b.
type LeastWork struct {
	predictor
	bound, weight float64 // b; w, in quality
	named
}

var leastWorkForm = form{
	kind: "least-work", rule: "a least-work policy",
	parameters: []parameter{
		{letter: "b", name: "bound", standard: 1, most: 1000, open: true,
			grid: []float64{0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1, 1.5, 2.5}},
		{letter: "w", name: "weight", standard: 0.5, most: 1000,
			grid: []float64{0, 0.1, 0.2, 0.4, 0.7, 1.2}},
	},
}

func newLeastWork(m *Maker, values []float64) (Rule, error) {
	predictor, err := m.predictor(leastWorkForm.rule)
	if err != nil {
		return nil, err
	}
	return &LeastWork{predictor: predictor, bound: values[0], weight: values[1], named: named(leastWorkForm.name(values))}, nil
}

// Decide implements router.Policy. Of equals, the larger variant.
func (p *LeastWork) Decide(v *fleet.View, r *fleet.Request, _ []float32) int {
	task := &v.Table.Tasks[r.Task]
	best, value := -1, math.Inf(-1)
	idlest, least := -1, math.Inf(1)
	for m := len(v.Table.Variants) - 1; m >= 0; m-- {
		if !v.VariantAvailable(m) {
			continue
		}
		work := p.least(v, r, m)
		if idlest < 0 || work < least {
			idlest, least = m, work
		}
		if x := task.Weight*v.Table.Quality(r, m) - p.weight*work; work <= p.bound && x > value {
			best, value = m, x
		}
	}
	if best < 0 {
		return idlest
	}
	return best
}

// least is the work of the variant's available replica with the least, joined by
// the request.
func (p *LeastWork) least(v *fleet.View, r *fleet.Request, variant int) float64 {
	least, deadline := math.Inf(1), allowed(v, r)
	for _, i := range v.ReplicasOf(variant) {
		if v.Available(i) {
			outstanding, its := float64(v.InFlight[i]+1), deadline/v.Slowdown(i)
			neighbours := p.neighbours(v, i, 0)
			work := outstanding * p.share(v.Table, i, its, neighbours) / its
			if strain := p.strain(v, r, i, neighbours); strain > 0 {
				work = max(work, strain*p.bound)
			}
			least = min(least, work)
		}
	}
	return least
}
