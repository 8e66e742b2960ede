package placement

import (
	"cmp"
	"slices"
)

// Algorithm1 is the paper's heuristic (FL-7). Printed has it as the paper prints it: without
// regard to primaries, sites, latency and alpha, so that its plan may hold a backup on the
// bin whose loss it is for. Ties are by order.
func (p *Problem) Algorithm1(printed bool) *Plan {
	q := *p
	if printed {
		q.Alpha, q.SiteIndependent = 0, false
		q.Items = slices.Clone(p.Items)
		for i := range q.Items {
			q.Items[i].Primary, q.Items[i].Site, q.Items[i].MaxLatency = "", "", 0
		}
	}
	l, delta := q.ledger(), q.delta()
	chosen := make([]Choice, len(q.Items))
	sorted := make([][]int, len(q.Items))
	for i := range q.Items {
		a := &q.Items[i]
		sorted[i] = l.bySize(a)
		chosen[i] = none
		for k := match(a, sorted[i], delta, l); k >= 0; k-- {
			v := sorted[i][k]
			if !a.quick(&a.Variants[v]) {
				continue
			}
			if s := l.worst(i, v); s >= 0 {
				l.add(i, v, s)
				chosen[i] = Choice{v, s}
				break
			}
		}
	}
	for i := range q.Items {
		l.upgrade(i, &chosen[i])
	}
	return p.plan(chosen)
}

// delta is how much of the largest variants of all would fit: the least over the resources.
func (p *Problem) delta() float64 {
	l, share := p.ledger(), 1.0
	for r := range p.Resources {
		var full float64
		for i := range p.Items {
			a := &p.Items[i]
			full += slices.MaxFunc(a.Variants, func(v, w Alternative) int { return cmp.Compare(v.Demand[r], w.Demand[r]) }).Demand[r]
		}
		if full > 0 {
			share = min(share, l.most[r]/full)
		}
	}
	return share
}

// match is the largest variant, by index in the sorted list, that takes at most delta of what
// the largest does; else the smallest.
func match(a *Item, sorted []int, delta float64, l *ledger) int {
	full := l.size(a.Variants[sorted[len(sorted)-1]].Demand)
	for k := len(sorted) - 1; k > 0; k-- {
		if l.size(a.Variants[sorted[k]].Demand) <= delta*full*(1+slack) {
			return k
		}
	}
	return 0
}

// size is the share of all capacity that the demand takes, of the resource of which it takes
// most.
func (l *ledger) size(demand []float64) (most float64) {
	for r, d := range demand {
		if l.most[r] > 0 {
			most = max(most, d/l.most[r])
		} else if d > 0 {
			most = largest
		}
	}
	return most
}

// bySize lists the application's variants from the smallest on.
func (l *ledger) bySize(a *Item) []int {
	list := make([]int, len(a.Variants))
	for v := range list {
		list[v] = v
	}
	slices.SortStableFunc(list, func(v, w int) int { return cmp.Compare(l.size(a.Variants[v].Demand), l.size(a.Variants[w].Demand)) })
	return list
}

// upgrade gives the application the best variant that its bin still fits.
func (l *ledger) upgrade(i int, choice *Choice) {
	if *choice == none {
		return
	}
	a := &l.p.Items[i]
	l.drop(i, choice.Variant, choice.Bin)
	for v := range a.Variants {
		if w := &a.Variants[v]; w.Quality > a.Variants[choice.Variant].Quality && a.quick(w) && l.has(i, v, choice.Bin) {
			choice.Variant = v
		}
	}
	l.add(i, choice.Variant, choice.Bin)
}
