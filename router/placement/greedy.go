package placement

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

// Greedy is our heuristic: the smallest variant for every application, the smallest first;
// what finds no room gets it where moving others makes some; then upgrades by what they gain
// per unit of capacity, on another server where their own is full. Smaller problems are then
// planned again for two servers at a time, exactly.
func (p *Problem) Greedy() *Plan { return p.greedily(true) }

// Quick is [Problem.Greedy] without what takes longest: nothing is planned again, and few others
// are moved to make room.
func (p *Problem) Quick() *Plan { return p.greedily(false) }

func (p *Problem) greedily(polish bool) *Plan {
	g := &greedy{ledger: p.ledger(), spots: make([]Spot, len(p.Applications)), on: make([][]int, len(p.Servers))}
	g.thorough = polish && len(p.Applications)*len(p.Servers) <= mostPolished
	g.prepare()
	for i := range g.spots {
		g.spots[i] = none
	}
	g.placeSmallest()
	g.repair()
	g.upgradeAll()
	switch {
	case p.Shared:
		g.share()
	case g.thorough:
		g.polish()
	}
	return p.plan(g.spots)
}

// The work that is put into plans: repairs move so many applications, or where a plan is to be
// quick look at so many servers, and pairs of servers are planned again for so many
// applications × servers at most, since either takes longer than all the rest.
const (
	mostMoves    = 1 << 14
	mostLooked   = 1 << 12
	mostPolished = 1 << 15
)

// greedy is a plan in the making.
type greedy struct {
	*ledger
	spots   []Spot
	order   []int   // of applications, by their smallest variant
	choices [][]int // by application, the variants that are worth it, from the smallest on
	level   []int   // by application, the present one of its choices
	on      [][]int // applications by server
	heap    servers
	// thorough is whether there is time for more.
	thorough bool
	looked   int // at servers, in searches
}

// prepare sorts the variants and the applications.
func (g *greedy) prepare() {
	p := g.p
	g.choices, g.level = make([][]int, len(p.Applications)), make([]int, len(p.Applications))
	smallest := make([]float64, len(p.Applications))
	for i := range p.Applications {
		a := &p.Applications[i]
		g.order = append(g.order, i)
		for _, v := range g.bySize(a) {
			// A variant that is no better in anything may share memory with what is there.
			if a.quick(&a.Variants[v]) && (p.Shared || !dominated(a, v, true)) {
				g.choices[i] = append(g.choices[i], v)
			}
		}
		if len(g.choices[i]) > 0 {
			smallest[i] = g.size(g.demand(i, 0))
		}
	}
	slices.SortStableFunc(g.order, func(i, j int) int { return cmp.Compare(smallest[i], smallest[j]) })
	g.fill()
}

// fill sorts the servers.
func (g *greedy) fill() {
	g.heap = servers{rooms: make([]float64, len(g.on)), at: make([]int, len(g.on))}
	for s := range g.on {
		g.heap.list, g.heap.at[s] = append(g.heap.list, s), s
		g.heap.rooms[s] = g.room(s)
	}
	heap.Init(&g.heap)
}

func (g *greedy) variant(i, level int) *Alternative {
	return &g.p.Applications[i].Variants[g.choices[i][level]]
}

func (g *greedy) demand(i, level int) []float64 { return g.variant(i, level).Demand }

// worth is quality × rate of the application at a level.
func (g *greedy) worth(i, level int) float64 {
	a := &g.p.Applications[i]
	return a.Variants[g.choices[i][level]].Quality * a.Rate
}

// put places the application.
func (g *greedy) put(i, level, server int) {
	g.add(g.variant(i, level), server)
	g.spots[i], g.level[i] = Spot{g.choices[i][level], server}, level
	g.on[server] = append(g.on[server], i)
	g.heap.changed(server, g.room(server))
}

// remove takes the application's backup away.
func (g *greedy) remove(i int) {
	s := g.spots[i].Server
	g.drop(g.variant(i, g.level[i]), s)
	g.spots[i] = none
	g.on[s] = slices.DeleteFunc(g.on[s], func(j int) bool { return j == i })
	g.heap.changed(s, g.room(s))
}

// roomiest is the server with the most room that may hold the application at the level and
// does; −1 if none does. Where memory is shared, a server that has the model comes first.
func (g *greedy) roomiest(i, level int) int {
	v := g.variant(i, level)
	if g.p.Shared {
		return g.worst(&g.p.Applications[i], v)
	}
	if !g.within(v.Demand) {
		return -1
	}
	return g.search(i, v, -1)
}

// search looks for a server with room for the application's variant, at those with the most
// room first. Where the room is below what is needed of any resource, no server that follows
// has it.
func (g *greedy) search(i int, v *Alternative, except int) int {
	needed := math.Inf(1)
	for r, d := range v.Demand {
		if g.most[r] > 0 {
			needed = min(needed, d/g.most[r]*(1-1e-6))
		}
	}
	return g.heap.first(func(s int) (ok, over bool) {
		g.looked++
		if s == except || !g.p.May(&g.p.Applications[i], s) {
			return false, false
		}
		if g.has(v, s) {
			return true, true
		}
		return false, !g.p.Shared && g.room(s) < needed
	})
}

// repair finds room for applications without any, by moving others away.
func (g *greedy) repair() {
	moves := mostMoves
	until := g.looked + mostLooked
	for _, i := range g.order {
		if !g.thorough && g.looked > until {
			return
		}
		if g.spots[i] == none && len(g.choices[i]) > 0 && (g.p.Shared || g.within(g.demand(i, 0))) {
			if !g.fitIn(i, deepest, &moves) && g.thorough {
				g.clearFor(i)
			}
		}
	}
}

// clearFor moves several applications off one server so that one fits there, the smallest
// first, since they find another place most easily.
func (g *greedy) clearFor(i int) bool {
	before := slices.Clone(g.spots)
	for s := range g.p.Servers {
		if !g.p.May(&g.p.Applications[i], s) {
			continue
		}
		list := slices.Clone(g.on[s])
		slices.SortStableFunc(list, func(j, k int) int { return cmp.Compare(g.size(g.demand(j, 0)), g.size(g.demand(k, 0))) })
		cleared := 0
		for ; cleared < len(list) && !g.has(g.variant(i, 0), s); cleared++ {
			g.remove(list[cleared])
		}
		ok := g.has(g.variant(i, 0), s)
		if ok {
			g.put(i, 0, s)
		}
		for _, j := range list[:cleared] {
			moves := mostMoves / 16
			ok = ok && g.fitIn(j, deepest, &moves)
		}
		if ok {
			return true
		}
		g.restore(before)
	}
	return false
}

// restore goes back to the spots.
func (g *greedy) restore(spots []Spot) {
	for i, spot := range spots {
		if g.spots[i] != spot && g.spots[i] != none {
			g.remove(i)
		}
	}
	for i, spot := range spots {
		if g.spots[i] != spot {
			g.put(i, slices.Index(g.choices[i], spot.Variant), spot.Server)
		}
	}
}

// deepest is how many applications move for one.
const deepest = 3

// fitIn places the application where moving another one makes room, for which that one may
// have others moved.
func (g *greedy) fitIn(i, depth int, moves *int) bool {
	if s := g.roomiest(i, 0); s >= 0 {
		g.put(i, 0, s)
		return true
	}
	if depth == 0 {
		return false
	}
	until := g.looked + mostLooked
	for s := range g.p.Servers {
		if !g.p.May(&g.p.Applications[i], s) {
			continue
		}
		for _, j := range slices.Clone(g.on[s]) {
			if *moves--; *moves < 0 || !g.thorough && g.looked > until {
				return false
			}
			level := g.level[j]
			g.remove(j)
			if g.has(g.variant(i, 0), s) {
				g.put(i, 0, s)
				if g.fitIn(j, depth-1, moves) {
					return true
				}
				g.remove(i)
			}
			g.put(j, level, s)
		}
	}
	return false
}

// upgradeAll gives applications better variants, the one that gains most per unit of
// capacity first.
func (g *greedy) upgradeAll() {
	steps := &upgrades{}
	for i := range g.spots {
		if g.spots[i] != none {
			g.next(steps, i, len(g.choices[i]))
		}
	}
	heap.Init(steps)
	for steps.Len() > 0 {
		u := heap.Pop(steps).(upgrade)
		most := len(g.choices[u.application])
		if !g.raise(u.application, u.level) {
			most = u.level // smaller ones may fit
		}
		before := steps.Len()
		g.next(steps, u.application, most)
		if steps.Len() > before {
			heap.Fix(steps, steps.Len()-1)
		}
	}
}

// next adds the application's best upgrade to a level below most.
func (g *greedy) next(steps *upgrades, i, most int) {
	from := g.level[i]
	best := upgrade{application: i, ratio: -1}
	for level := from + 1; level < most; level++ {
		gain := g.worth(i, level) - g.worth(i, from)
		if ratio := gain / max(1e-12, g.size(g.demand(i, level))-g.size(g.demand(i, from))); gain > 0 && ratio > best.ratio {
			best.level, best.ratio = level, ratio
		}
	}
	if best.ratio >= 0 {
		*steps = append(*steps, best)
	}
}

// raise gives the application a level, on its server or on another.
func (g *greedy) raise(i, level int) bool {
	s, v, before := g.spots[i].Server, g.variant(i, level), g.variant(i, g.level[i])
	g.drop(before, s) // it is given back
	to := s
	if !g.has(v, s) {
		if to = -1; g.p.Shared || g.within(v.Demand) {
			to = g.search(i, v, s)
		}
	}
	g.add(before, s)
	if to < 0 {
		return false
	}
	g.remove(i)
	g.put(i, level, to)
	return true
}

// polish plans the backups on each pair of servers again, and those of applications without
// one, exactly as far as that is quickly done, until nothing is gained.
func (g *greedy) polish() {
	for again, rounds := true, 0; again && rounds < 5; rounds++ {
		again = false
		for s := range g.p.Servers {
			for t := range s {
				again = g.replan([]int{s, t}) || again
			}
		}
	}
}

// quickNodes bounds the search of a pair.
const quickNodes = 400

// replan plans the servers again, and reports whether that gained anything.
func (g *greedy) replan(list []int) bool {
	sub := &Problem{Resources: g.p.Resources, SiteIndependent: g.p.SiteIndependent, limit: slices.Clone(g.left)}
	start := &Plan{}
	var which []int
	for i, spot := range g.spots {
		at := slices.Index(list, spot.Server)
		if at < 0 && spot != none {
			continue
		}
		which = append(which, i)
		sub.Applications = append(sub.Applications, g.p.Applications[i])
		if spot.Server = at; at >= 0 {
			for r, d := range g.p.Applications[i].Variants[spot.Variant].Demand {
				sub.limit[r] += d
			}
		}
		start.Spots = append(start.Spots, spot)
	}
	for _, s := range list {
		sub.Servers = append(sub.Servers, g.p.Servers[s])
	}
	start = sub.plan(start.Spots)
	nodes := 0
	x := sub.exact(start, func() bool { nodes++; return nodes > quickNodes/stopEvery })
	if x.Placed < start.Placed || x.Placed == start.Placed && x.Objective <= start.Objective*(1+1e-9) {
		return false
	}
	for _, i := range which {
		if g.spots[i] != none {
			g.remove(i)
		}
	}
	for k, i := range which {
		if spot := x.Spots[k]; spot != none {
			g.put(i, slices.Index(g.choices[i], spot.Variant), list[spot.Server])
		}
	}
	return true
}
