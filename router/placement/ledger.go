package placement

import "math"

// ledger is what is left free.
type ledger struct {
	p    *Problem
	free [][]float64 // by bin and resource
	left []float64   // in all, by resource
	most []float64   // all free capacity
	// model numbers the model of each application's variants, −1 where it has none, and held
	// counts by bin the backups of each, and what was loaded there before. They are nil
	// unless memory is shared.
	model [][]int
	held  [][]int
	rest  []float64 // of cost
}

func (p *Problem) ledger() *ledger {
	l := &ledger{p: p, left: p.budget(), most: make([]float64, len(p.Resources))}
	all := make([]float64, len(p.Bins)*len(p.Resources))
	for i := range p.Bins {
		own := all[:len(p.Resources):len(p.Resources)]
		all = all[len(p.Resources):]
		copy(own, p.Bins[i].Free)
		l.free = append(l.free, own)
		for r, x := range own {
			l.most[r] += x
		}
	}
	if p.Shared {
		l.number()
	}
	return l
}

// number gives the models numbers, and counts what is loaded.
func (l *ledger) number() {
	numbers := map[string]int{}
	of := func(name string) int {
		n, known := numbers[name]
		if !known {
			n = len(numbers)
			numbers[name] = n
		}
		return n
	}
	for i := range l.p.Items {
		list := make([]int, len(l.p.Items[i].Variants))
		for v := range list {
			list[v] = -1
			if name := l.p.Items[i].Variants[v].Model; name != "" {
				list[v] = of(name)
			}
		}
		l.model = append(l.model, list)
	}
	for i := range l.p.Bins {
		for _, name := range l.p.Bins[i].Loaded {
			of(name)
		}
	}
	for i := range l.p.Bins {
		held := make([]int, len(numbers))
		for _, name := range l.p.Bins[i].Loaded {
			held[of(name)]++
		}
		l.held = append(l.held, held)
	}
	l.rest = make([]float64, len(l.p.Resources))
}

// holds reports whether the model of the application's variant is on the bin, and so its
// memory taken.
func (l *ledger) holds(i, v, bin int) bool {
	return l.model != nil && l.model[i][v] >= 0 && l.held[bin][l.model[i][v]] > 0
}

// cost is what the variant takes on the bin. It holds until the next call.
func (l *ledger) cost(i, v, bin int) []float64 {
	demand := l.p.Items[i].Variants[v].Demand
	if !l.holds(i, v, bin) {
		return demand
	}
	copy(l.rest, demand)
	l.rest[0] = 0
	return l.rest
}

// add enters a backup.
func (l *ledger) add(i, v, bin int) {
	l.take(l.cost(i, v, bin), bin, 1)
	l.count(i, v, bin, 1)
}

// drop removes a backup that was entered.
func (l *ledger) drop(i, v, bin int) {
	l.count(i, v, bin, -1)
	l.take(l.cost(i, v, bin), bin, -1)
}

func (l *ledger) count(i, v, bin, by int) {
	if l.model != nil && l.model[i][v] >= 0 {
		l.held[bin][l.model[i][v]] += by
	}
}

// has reports whether the bin has room for the variant, and so have all together.
func (l *ledger) has(i, v, bin int) bool { return l.fits(l.cost(i, v, bin), bin) }

// fitsBin reports whether the bin has room for the demand.
func (l *ledger) fitsBin(demand []float64, bin int) bool {
	for r, d := range demand {
		if d > l.free[bin][r]+slack*(1+l.p.Bins[bin].Free[r]) {
			return false
		}
	}
	return true
}

// fits reports whether the bin has room for it, and so have all together.
func (l *ledger) fits(demand []float64, bin int) bool {
	return l.fitsBin(demand, bin) && l.within(demand)
}

// within reports whether all bins together may hold as much more.
func (l *ledger) within(demand []float64) bool {
	for r, d := range demand {
		if d > l.left[r]+slack*(1+l.most[r]) {
			return false
		}
	}
	return true
}

// take takes the demand so many times from the bin; −1 gives it back.
func (l *ledger) take(demand []float64, bin int, times float64) {
	for r, d := range demand {
		l.free[bin][r] -= times * d
		l.left[r] -= times * d
	}
}

// room is the share of the bin's own capacity that is free, of the resource that is
// scarcest there, weighed by the bin's size: what worst fit prefers.
func (l *ledger) room(bin int) float64 {
	least := math.Inf(1)
	for r := range l.most {
		if l.most[r] > 0 {
			least = min(least, l.free[bin][r]/l.most[r])
		}
	}
	return least
}

// worst is the bin with the most room among those that may hold the application's variant;
// −1 if none can. One that has its model comes first.
func (l *ledger) worst(i, v int) int {
	best, most, shares := -1, math.Inf(-1), false
	for s := range l.free {
		held := l.holds(i, v, s)
		if room := l.room(s); (held && !shares || held == shares && room > most) && l.p.May(&l.p.Items[i], s) && l.has(i, v, s) {
			best, most, shares = s, room, held
		}
	}
	return best
}
