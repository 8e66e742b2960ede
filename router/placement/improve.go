package placement

import (
	"cmp"
	"slices"
)

// draft is a part of a plan that is made again: the applications on a few bins, and some that have no backup.
type draft struct {
	bins   []int
	list   []int     // applications, in the order in which they are placed
	keys   []float64 // by application, of that order
	before []Choice  // of the list
	// wanted is an application that is placed at a level on the first of the bins before all others; −1 if none is.
	wanted, level int
}

// Improve makes the plan better with so much work, of which a unit is to look at one bin for one application. It
// is a large neighbourhood search: parts of the plan that are drawn are made again, in orders that are drawn, and
// kept unless they are worse. It ends where each application has its best variant. The generator is the search's own, so the same work has the same result.
func (g *Search) Improve(work int) {
	for drafts, until := 0, g.work+work; g.work < until; drafts++ {
		if drafts%64 == 0 && !slices.ContainsFunc(g.order, func(i int) bool { return g.now(i) < g.best[i] }) {
			return
		}
		g.draw()
		g.among(g.draft.bins)
		g.again()
	}
}

// pack places more applications in their smallest variants, until all are or the work is done. It prefers plans
// that leave room in few places.
func (g *Search) pack(work int) {
	g.packing = true
	for until := g.work + work; g.work < until && len(g.without) > 0; {
		g.draw()
		g.again()
	}
	g.packing = false
}

// again makes the draft, and goes back if that is worse.
func (g *Search) again() {
	d := &g.draft
	g.work += len(d.list)
	placed, worth := g.score()
	g.clear()
	if i := d.wanted; i >= 0 && g.has(i, g.choices[i][d.level], d.bins[0]) {
		g.put(i, d.level, d.bins[0])
	}
	g.tight = g.random.IntN(2) == 0
	g.bold = !g.packing && g.random.IntN(3) == 0
	g.placeAll(d.list)
	g.bold = false
	if g.tight = false; !g.packing {
		g.upgradeAll(d.list)
	}
	if p, w := g.score(); p < placed || p == placed && w < worth {
		g.clear()
		for k, i := range d.list {
			if s := d.before[k]; s != none {
				g.put(i, slices.Index(g.choices[i], s.Variant), s.Bin)
			}
		}
		return
	}
	for k, i := range d.list {
		switch was, is := d.before[k] != none, g.chosen[i] != none; {
		case was && !is:
			g.without = append(g.without, i)
		case is && !was:
			last := len(g.without) - 1
			g.without[slices.Index(g.without, i)] = g.without[last]
			g.without = g.without[:last]
		}
	}
}

// clear takes away what the draft has placed.
func (g *Search) clear() {
	for _, i := range g.draft.list {
		if g.chosen[i] != none {
			g.remove(i)
		}
	}
}

// score returns how many of the draft have a backup, and what those are worth. As applications are packed that is
// how unevenly room is left.
func (g *Search) score() (placed int, worth float64) {
	for _, i := range g.draft.list {
		if g.chosen[i] != none {
			placed++
			worth += g.worth(i, g.level[i])
		}
	}
	if g.packing {
		worth = g.heap.squares
	}
	return placed, worth
}

// mostWithout are made again at a time.
const mostWithout = 6

// draw draws a draft.
func (g *Search) draw() {
	d, random := &g.draft, g.random
	d.bins, d.list, d.wanted = d.bins[:0], d.list[:0], -1
	share := 1.0
	switch random.IntN(4) {
	case 0:
		share = 0.2 + 0.8*random.Float64()
	case 1, 2:
		g.want()
	}
	many := random.IntN(3)
	if d.wanted < 0 {
		many++
	}
	if random.IntN(8) == 0 {
		many += 3
	}
	for range min(len(g.on), many) {
		if s := random.IntN(len(g.on)); !slices.Contains(d.bins, s) {
			d.bins = append(d.bins, s)
		}
	}
	for _, s := range d.bins {
		for _, i := range g.on[s] {
			if share == 1 || random.Float64() < share {
				d.list = append(d.list, i)
			}
		}
	}
	for n := range min(mostWithout, len(g.without)) {
		k := n + random.IntN(len(g.without)-n)
		g.without[n], g.without[k] = g.without[k], g.without[n]
		d.list = append(d.list, g.without[n])
	}
	if d.wanted >= 0 && !slices.Contains(d.list, d.wanted) {
		d.list = append(d.list, d.wanted)
	}
	g.shuffle()
	d.before = d.before[:0]
	for _, i := range d.list {
		d.before = append(d.before, g.chosen[i])
	}
}

// shuffle has the draft's applications be placed at random, the smallest or the largest first, or those of which a
// unit of capacity is worth most.
func (g *Search) shuffle() {
	d, how := &g.draft, g.random.IntN(4)
	for _, i := range d.list {
		key := 0.7 + 0.6*g.random.Float64()
		switch size := g.size(g.demand(i, 0)); how {
		case 1:
			key *= size
		case 2:
			key *= -size
		case 3:
			key *= -g.worth(i, 0) / max(1e-12, size)
		}
		d.keys[i] = key
	}
	slices.SortFunc(d.list, func(i, j int) int { return cmp.Compare(d.keys[i], d.keys[j]) })
}

// want draws an application that could be better off, a level at which it is, and a bin for that.
func (g *Search) want() {
	i, most := -1, 0.0
	from := g.order
	if g.packing {
		from = g.without
	}
	for range 1 + g.random.IntN(8) {
		j := from[g.random.IntN(len(from))]
		if loss := g.best[j] - g.now(j); loss > most {
			i, most = j, loss
		}
	}
	s := g.random.IntN(len(g.on))
	if i < 0 || !g.p.May(&g.p.Items[i], s) {
		return
	}
	level := 0
	if !g.packing {
		level = g.random.IntN(len(g.choices[i]))
	}
	if g.worth(i, level) <= g.now(i) {
		return
	}
	g.draft.wanted, g.draft.level = i, level
	g.draft.bins = append(g.draft.bins, s)
	if t := g.chosen[i].Bin; t >= 0 && t != s {
		g.draft.bins = append(g.draft.bins, t)
	}
}

// now returns what the application's backup is worth.
func (g *Search) now(i int) float64 {
	if g.chosen[i] == none {
		return 0
	}
	return g.worth(i, g.level[i])
}

// AtOnce returns the work that is put into a plan that is waited for: some milliseconds, and less where there is little
// to plan.
func (p *Problem) AtOnce() int { return min(1<<15, len(p.Items)<<11) }

// Thorough returns the work that is put into a plan that is not: some 30 times as much.
func (p *Problem) Thorough() int { return p.AtOnce() << 5 }

// mostSlices bounds the slices that follow a plan that was waited for.
const mostSlices = 8

// Slice goes on with the search for as much work as a plan that is waited for, and reports whether another slice is
// worth it: this one placed more, or gained a thousandth.
func (g *Search) Slice() (more bool) {
	before := g.Plan()
	g.Improve(g.p.AtOnce())
	g.slices++
	after := g.Plan()
	return g.slices < mostSlices && (after.Placed > before.Placed || after.Objective > before.Objective*1.001)
}
