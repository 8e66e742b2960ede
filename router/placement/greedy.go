package placement

import (
	"cmp"
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
)

// Search is a plan in the making. The first one is there at once; [Search.Improve] makes it better
// for as long as there is time. Plans of the same problem and the same work are the same.
type Search struct {
	*ledger
	chosen  []Choice
	order   []int     // of applications, by their smallest variant
	choices [][]int   // by application, the variants that are worth it, from the smallest on
	best    []float64 // by application, what its best variant is worth
	level   []int     // by application, the present one of its choices
	on      [][]int   // applications by bin
	without []int     // applications without a backup
	heap    bins      // among which room is looked for
	steps   upgrades
	work    int // done, in bins that were looked at for an application
	slices  int

	random *rand.Rand
	draft  draft
	// packing has only the number of backups count, tight has bins with the least room come first, and bold has
	// applications try a variant that is drawn before the smallest.
	packing, tight, bold bool
}

// Search makes the first plan: the smallest variant for every application, the smallest first; what finds no room
// gets it where others move, for which a quarter of the work is spent at most; then upgrades by what they gain per unit of
// capacity, on another bin where their own is full. The rest of the work makes it better.
func (p *Problem) Search(work int) *Search {
	n := len(p.Items)
	g := &Search{ledger: p.ledger(), chosen: slices.Repeat([]Choice{none}, n), choices: make([][]int, n), best: make([]float64, n),
		level: make([]int, n), on: make([][]int, len(p.Bins)), random: rand.New(rand.NewPCG(1, 2)), draft: draft{keys: make([]float64, n)}}
	g.prepare()
	g.placeSmallest()
	for _, i := range g.order {
		if g.chosen[i] == none {
			g.without = append(g.without, i)
		}
	}
	until := g.work + work
	g.pack(work / 4)
	g.upgradeAll(g.order)
	g.Improve(until - g.work)
	return g
}

// Plan returns the best plan so far.
func (g *Search) Plan() *Plan { return g.p.plan(slices.Clone(g.chosen)) }

// Plan plans by our heuristic with so much work after the first plan, which 0 returns.
func (p *Problem) Plan(work int) *Plan { return p.Search(work).Plan() }

// prepare sorts the variants and the applications.
func (g *Search) prepare() {
	p := g.p
	smallest := make([]float64, len(p.Items))
	for i := range p.Items {
		a := &p.Items[i]
		g.order = append(g.order, i)
		for _, v := range g.bySize(a) {
			// A variant that is no better in anything may share memory with what is there.
			if a.quick(&a.Variants[v]) && (p.Shared || !dominated(a, v, true)) {
				g.choices[i] = append(g.choices[i], v)
			}
		}
		for level := range g.choices[i] {
			g.best[i] = max(g.best[i], g.worth(i, level))
		}
		if len(g.choices[i]) > 0 {
			smallest[i] = g.size(g.demand(i, 0))
		}
	}
	slices.SortStableFunc(g.order, func(i, j int) int { return cmp.Compare(smallest[i], smallest[j]) })
	g.order = slices.DeleteFunc(g.order, func(i int) bool { return !g.possible(i) })
	all := make([]int, len(p.Bins))
	for s := range all {
		all[s] = s
	}
	g.heap = bins{rooms: make([]float64, len(all)), at: make([]int, len(all))}
	g.among(all)
}

// possible reports whether a bin could hold the application, were it empty.
func (g *Search) possible(i int) bool {
	for s := range g.on {
		for _, v := range g.choices[i] {
			if g.p.May(&g.p.Items[i], s) && g.has(i, v, s) {
				return true
			}
		}
	}
	return false
}

// among has room be looked for on these bins alone.
func (g *Search) among(list []int) {
	g.heap.list = append(g.heap.list[:0], list...)
	for k, s := range list {
		g.heap.at[s], g.heap.rooms[s] = k, g.room(s)
	}
	heap.Init(&g.heap)
}

func (g *Search) demand(i, level int) []float64 {
	return g.p.Items[i].Variants[g.choices[i][level]].Demand
}

// worth is quality × rate of the application at a level.
func (g *Search) worth(i, level int) float64 {
	a := &g.p.Items[i]
	return a.Variants[g.choices[i][level]].Quality * a.Rate
}

// put places the application.
func (g *Search) put(i, level, bin int) {
	g.add(i, g.choices[i][level], bin)
	g.chosen[i], g.level[i] = Choice{g.choices[i][level], bin}, level
	g.on[bin] = append(g.on[bin], i)
	g.heap.changed(bin, g.room(bin))
}

// remove takes the application's backup away.
func (g *Search) remove(i int) {
	s := g.chosen[i].Bin
	g.drop(i, g.chosen[i].Variant, s)
	g.chosen[i] = none
	k := slices.Index(g.on[s], i)
	g.on[s] = slices.Delete(g.on[s], k, k+1)
	g.heap.changed(s, g.room(s))
}

// roomiest is the bin with the most room that may hold the application at the level and
// does; −1 if none does. Where memory is shared, a bin that has the model comes first.
func (g *Search) roomiest(i, level, except int) int {
	v := g.choices[i][level]
	demand := g.p.Items[i].Variants[v].Demand
	may := func(s int) bool { return s != except && g.p.May(&g.p.Items[i], s) }
	if g.model != nil && g.model[i][v] >= 0 {
		best := -1
		for _, s := range g.heap.list {
			if g.holds(i, v, s) && (best < 0 || g.heap.rooms[s] > g.heap.rooms[best]) && may(s) && g.has(i, v, s) {
				best = s
			}
		}
		if g.work += 1 + len(g.heap.list)/8; best >= 0 {
			return best
		}
	}
	if !g.within(demand) {
		g.work++
		return -1
	}
	if g.tight {
		best := -1
		for _, s := range g.heap.list {
			if (best < 0 || g.heap.rooms[s] < g.heap.rooms[best]) && g.fitsBin(demand, s) && may(s) {
				best = s
			}
		}
		g.work += 1 + len(g.heap.list)/4
		return best
	}
	// Where the room is below what is needed of any resource, no bin that follows has it.
	needed := math.Inf(1)
	for r, d := range demand {
		if g.most[r] > 0 {
			needed = min(needed, d/g.most[r]*(1-1e-6))
		}
	}
	return g.heap.first(func(s int) (ok, over bool) {
		g.work++
		switch {
		case g.heap.rooms[s] < needed:
			return false, true
		case g.fitsBin(demand, s) && may(s):
			return true, true
		}
		return false, false
	})
}

// placeSmallest places the smallest variant of each application, the smallest first. Where
// that leaves some without for which there is room in sum, the same is tried with the largest
// first, of as many as there is room for, since small ones fill what large ones leave. The
// better of the two is kept.
func (g *Search) placeSmallest() {
	possible := g.inSum(g.order)
	missing := g.placeAll(g.order)
	if missing == 0 || missing <= len(g.order)-possible {
		return
	}
	before := slices.Clone(g.chosen)
	g.restore(slices.Repeat([]Choice{none}, len(g.chosen)))
	order := slices.Clone(g.order)
	slices.Reverse(order[:possible])
	if g.placeAll(order) >= missing {
		g.restore(before)
	}
}

// placeAll places applications where most room is, in the order, and returns how many find none.
func (g *Search) placeAll(order []int) (missing int) {
	for _, i := range order {
		if g.chosen[i] != none {
			continue
		}
		missing++
		for level := -1; level < len(g.choices[i]); level++ {
			at := max(0, level)
			if level < 0 && g.bold {
				at = g.random.IntN(len(g.choices[i]))
			} else if level < 0 {
				continue
			}
			if s := g.roomiest(i, at, -1); s >= 0 {
				g.put(i, at, s)
				missing--
				break
			}
		}
	}
	return missing
}

// inSum counts the applications, in the order, that there is room for with all bins as one.
func (g *Search) inSum(order []int) int {
	left := slices.Clone(g.left)
	for n, i := range order {
		for r, d := range g.demand(i, 0) {
			if left[r] -= d; left[r] < 0 {
				return n
			}
		}
	}
	return len(order)
}

// restore goes back to earlier choices.
func (g *Search) restore(chosen []Choice) {
	for i, choice := range chosen {
		if g.chosen[i] != choice && g.chosen[i] != none {
			g.remove(i)
		}
	}
	for i, choice := range chosen {
		if g.chosen[i] != choice {
			g.put(i, slices.Index(g.choices[i], choice.Variant), choice.Bin)
		}
	}
}

// upgradeAll gives the applications better variants, the one that gains most per unit of
// capacity first.
func (g *Search) upgradeAll(list []int) {
	g.steps = g.steps[:0]
	for _, i := range list {
		if g.chosen[i] != none {
			g.next(i, len(g.choices[i]))
		}
	}
	heap.Init(&g.steps)
	for len(g.steps) > 0 {
		u := g.steps[0]
		most := len(g.choices[u.application])
		if !g.raise(u.application, u.level) {
			most = u.level // smaller ones may fit
		}
		last := len(g.steps) - 1
		if g.next(u.application, most); len(g.steps) == last+1 {
			g.steps.Swap(0, last)
			g.steps = g.steps[:last]
		} else {
			g.steps[0] = g.steps[last+1]
			g.steps = g.steps[:last+1]
		}
		if len(g.steps) > 0 {
			heap.Fix(&g.steps, 0)
		}
	}
}

// next adds the application's best upgrade to a level below most.
func (g *Search) next(i, most int) {
	from := g.level[i]
	best := upgrade{application: i, ratio: -1}
	for level := from + 1; level < most; level++ {
		gain := g.worth(i, level) - g.worth(i, from)
		if ratio := gain / max(1e-12, g.size(g.demand(i, level))-g.size(g.demand(i, from))); gain > 0 && ratio > best.ratio {
			best.level, best.ratio = level, ratio
		}
	}
	if best.ratio >= 0 {
		g.steps = append(g.steps, best)
	}
}

// raise gives the application a level, on its bin or on another.
func (g *Search) raise(i, level int) bool {
	s, before := g.chosen[i].Bin, g.chosen[i].Variant
	g.drop(i, before, s) // it is given back
	to := s
	if g.work++; !g.has(i, g.choices[i][level], s) {
		to = g.roomiest(i, level, s)
	}
	g.add(i, before, s)
	if to < 0 {
		return false
	}
	g.remove(i)
	g.put(i, level, to)
	return true
}
