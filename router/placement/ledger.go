package placement

import "math"

// ledger is what is left free.
type ledger struct {
	p    *Problem
	free [][]float64 // by server and resource
	left []float64   // in all, by resource
	most []float64   // all free capacity
	// models count the backups of each model by server, and what was loaded there before;
	// nil unless memory is shared.
	models []map[string]int
	rest   []float64 // of cost
}

func (p *Problem) ledger() *ledger {
	l := &ledger{p: p, left: p.budget(), most: make([]float64, len(p.Resources))}
	all := make([]float64, len(p.Servers)*len(p.Resources))
	for i := range p.Servers {
		own := all[:len(p.Resources):len(p.Resources)]
		all = all[len(p.Resources):]
		copy(own, p.Servers[i].Free)
		l.free = append(l.free, own)
		for r, x := range own {
			l.most[r] += x
		}
	}
	if p.Shared {
		l.rest = make([]float64, len(p.Resources))
		for i := range p.Servers {
			held := map[string]int{}
			for _, name := range p.Servers[i].Loaded {
				held[name]++
			}
			l.models = append(l.models, held)
		}
	}
	return l
}

// holds reports whether the variant's model is on the server, and so its memory taken.
func (l *ledger) holds(v *Alternative, server int) bool {
	return l.models != nil && v.Model != "" && l.models[server][v.Model] > 0
}

// cost is what the variant takes on the server. It holds until the next call.
func (l *ledger) cost(v *Alternative, server int) []float64 {
	if !l.holds(v, server) {
		return v.Demand
	}
	copy(l.rest, v.Demand)
	l.rest[0] = 0
	return l.rest
}

// add enters a backup.
func (l *ledger) add(v *Alternative, server int) {
	l.take(l.cost(v, server), server, 1)
	if l.models != nil && v.Model != "" {
		l.models[server][v.Model]++
	}
}

// drop removes a backup that was entered.
func (l *ledger) drop(v *Alternative, server int) {
	if l.models != nil && v.Model != "" {
		l.models[server][v.Model]--
	}
	l.take(l.cost(v, server), server, -1)
}

// has reports whether the server has room for the variant, and so have all together.
func (l *ledger) has(v *Alternative, server int) bool { return l.fits(l.cost(v, server), server) }

// fitsServer reports whether the server has room for the demand.
func (l *ledger) fitsServer(demand []float64, server int) bool {
	for r, d := range demand {
		if d > l.free[server][r]+slack*(1+l.p.Servers[server].Free[r]) {
			return false
		}
	}
	return true
}

// fits reports whether the server has room for it, and so have all together.
func (l *ledger) fits(demand []float64, server int) bool {
	return l.fitsServer(demand, server) && l.within(demand)
}

// within reports whether all servers together may hold as much more.
func (l *ledger) within(demand []float64) bool {
	for r, d := range demand {
		if d > l.left[r]+slack*(1+l.most[r]) {
			return false
		}
	}
	return true
}

// take takes the demand so many times from the server; −1 gives it back.
func (l *ledger) take(demand []float64, server int, times float64) {
	for r, d := range demand {
		l.free[server][r] -= times * d
		l.left[r] -= times * d
	}
}

// room is the share of the server's own capacity that is free, of the resource that is
// scarcest there, weighed by the server's size: what worst fit prefers.
func (l *ledger) room(server int) float64 {
	least := math.Inf(1)
	for r := range l.most {
		if l.most[r] > 0 {
			least = min(least, l.free[server][r]/l.most[r])
		}
	}
	return least
}

// worst is the server with the most room among those that may hold the application's variant;
// −1 if none can. One that has its model comes first.
func (l *ledger) worst(a *Application, v *Alternative) int {
	best, most, shares := -1, math.Inf(-1), false
	for s := range l.free {
		held := l.holds(v, s)
		if room := l.room(s); (held && !shares || held == shares && room > most) && l.p.May(a, s) && l.has(v, s) {
			best, most, shares = s, room, held
		}
	}
	return best
}
