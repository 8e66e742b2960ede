package placement

import (
	"cmp"
	"math"
	"slices"
)

// Exact finds the best plan by branch and bound: first how many applications can have a
// backup at most, then, of the plans with so many, the one of the highest Σ quality × rate.
// It begins with a plan that is known, or with the first one of a [Search] if start is nil, and
// goes on until it has proved that, or until stop reports true; then Optimal is false, and the
// plan is the best that was found. Where memory is shared, it panics.
func (p *Problem) Exact(start *Plan, stop func() bool) *Plan {
	if p.Shared {
		panic("placement: exact plans do not know shared memory")
	}
	if start == nil {
		start = p.Plan(0)
	}
	b := newBranching(p, stop)
	// How many: each placed application counts one.
	b.prepare(1, 0, len(p.Items))
	b.best, b.found = float64(start.Placed), slices.Clone(start.Choices)
	b.integral = true
	b.search()
	placed, stopped := int(math.Round(b.best)), b.stopped
	chosen := b.found
	// How good: with so many.
	b.prepare(0, 1, len(p.Items)-placed)
	b.best, b.found, b.integral = p.plan(chosen).Objective, chosen, false
	if start.Placed == placed && start.Objective > b.best {
		b.best, b.found = start.Objective, slices.Clone(start.Choices)
	}
	b.search()
	x := p.plan(b.found)
	x.Optimal = !stopped && !b.stopped
	if !x.Optimal {
		x.Bound = b.root
	} else {
		x.Bound = x.Objective
	}
	return x
}

// stopEvery is after how many nodes a search asks whether to stop.
const stopEvery = 50

// branching is one search. Each application takes one of its options; constraints are the
// bins' resources, those of all bins, and how many may go without a backup. The bound
// of a node is Lagrange's: what breaks a constraint costs its price, and applications choose
// for themselves.
type branching struct {
	p        *Problem
	stop     func() bool
	ledger   *ledger
	order    []int // of applications
	options  [][]option
	prices   []float64 // by constraint: bin × resource, then resources, then skips
	skips    int       // applications that may still go without
	chosen   []Choice
	found    []Choice
	best     float64
	root     float64 // the bound of all plans
	integral bool    // values are whole numbers
	stopped  bool
	nodes    int
}

// option is a choice of an application and its value.
type option struct {
	Choice
	value  float64
	demand []float64
}

func newBranching(p *Problem, stop func() bool) *branching {
	return &branching{p: p, stop: stop}
}

// prepare lists the options, of which each is worth count and quality × rate so many times.
func (b *branching) prepare(count, quality float64, skips int) {
	p := b.p
	b.ledger, b.skips, b.nodes, b.stopped = p.ledger(), skips, 0, false
	b.chosen, b.order, b.options = make([]Choice, len(p.Items)), nil, nil
	least := make([]float64, len(p.Items))
	for i := range p.Items {
		a := &p.Items[i]
		b.chosen[i] = none
		var list []option
		least[i] = math.Inf(1)
		for v := range a.Variants {
			w := &a.Variants[v]
			if !a.quick(w) || dominated(a, v, quality > 0) {
				continue
			}
			least[i] = min(least[i], b.ledger.size(w.Demand))
			for s := range p.Bins {
				if p.May(a, s) && b.ledger.fits(w.Demand, s) {
					list = append(list, option{Choice{v, s}, count + quality*w.Quality*a.Rate, w.Demand})
				}
			}
		}
		b.options, b.order = append(b.options, append(list, option{Choice: none})), append(b.order, i)
	}
	slices.SortStableFunc(b.order, func(i, j int) int {
		if n := cmp.Compare(len(b.options[i]), len(b.options[j])); n != 0 && min(len(b.options[i]), len(b.options[j])) <= 2 {
			return n // hardly a choice
		}
		return cmp.Compare(least[j], least[i])
	})
	b.prices = make([]float64, (len(p.Bins)+1)*len(p.Resources)+1)
}

// dominated reports whether another variant is no worse in anything. Without quality only
// demands count.
func dominated(a *Item, v int, quality bool) bool {
	x := &a.Variants[v]
	for w := range a.Variants {
		y := &a.Variants[w]
		if w == v || !a.quick(y) || quality && y.Quality < x.Quality {
			continue
		}
		better, as := quality && y.Quality > x.Quality, true
		for r := range x.Demand {
			as = as && y.Demand[r] <= x.Demand[r]
			better = better || y.Demand[r] < x.Demand[r]
		}
		if as && (better || w < v) {
			return true
		}
	}
	return false
}

func (b *branching) search() {
	b.root = b.bound(0, 0, 400)
	b.visit(0, 0)
}

// cutoff is what a plan has to be worth to be better than the best found.
func (b *branching) cutoff() float64 {
	if b.integral {
		return b.best + 1 - 1e-6
	}
	return b.best + 1e-9*(1+math.Abs(b.best))
}

// visit goes through the plans that begin as those of the first applications in order do,
// which are worth so much.
func (b *branching) visit(depth int, worth float64) {
	if depth == len(b.order) {
		if worth >= b.cutoff() || !b.integral && worth > b.best {
			b.best = worth
			copy(b.found, b.chosen)
		}
		return
	}
	if b.nodes++; b.nodes%stopEvery == 0 && b.stop != nil && b.stop() {
		b.stopped = true
	}
	if b.stopped || b.bound(depth, worth, 4) < b.cutoff() {
		return
	}
	i := b.order[depth]
	list := b.promising(i)
	for _, o := range list {
		if b.stopped {
			return
		}
		b.set(i, &o, 1)
		b.visit(depth+1, worth+o.value)
		b.set(i, &o, -1)
	}
	b.chosen[i] = none
}

// set enters the option, or removes it.
func (b *branching) set(i int, o *option, times float64) {
	if o.Choice == none {
		b.skips -= int(times)
		b.chosen[i] = none
		return
	}
	b.ledger.take(o.demand, o.Bin, times)
	if times > 0 {
		b.chosen[i] = o.Choice
	}
}

// promising lists the options of an application that are possible, the best at the present
// prices first. Of bins that are alike it keeps the first.
func (b *branching) promising(i int) []option {
	var list []option
	var worth []float64
	for k := range b.options[i] {
		o := &b.options[i][k]
		if !b.possible(o) || b.repeated(i, o, list) {
			continue
		}
		list, worth = append(list, *o), append(worth, b.reduced(o))
	}
	index := make([]int, len(list))
	for k := range index {
		index[k] = k
	}
	slices.SortStableFunc(index, func(x, y int) int { return cmp.Compare(worth[y], worth[x]) })
	sorted := make([]option, len(list))
	for k, x := range index {
		sorted[k] = list[x]
	}
	return sorted
}

// repeated reports whether the list has the variant on a bin that is the same for all
// that are not placed: as much is free, and none of their primaries or sites is concerned.
func (b *branching) repeated(i int, o *option, list []option) bool {
	if o.Choice == none || !slices.Equal(b.ledger.free[o.Bin], b.p.Bins[o.Bin].Free) || b.named(o.Bin) {
		return false
	}
	return slices.ContainsFunc(list, func(x option) bool {
		return x.Choice != none && x.Variant == o.Variant && !b.named(x.Bin) && slices.Equal(b.ledger.free[x.Bin], b.ledger.free[o.Bin]) &&
			slices.Equal(b.p.Bins[x.Bin].Free, b.p.Bins[o.Bin].Free)
	})
}

// named reports whether the bin is the primary of an application, or on the site of one.
func (b *branching) named(bin int) bool {
	return slices.ContainsFunc(b.p.Items, func(a Item) bool { return !b.p.May(&a, bin) })
}

func (b *branching) possible(o *option) bool {
	if o.Choice == none {
		return b.skips > 0
	}
	return b.ledger.fits(o.demand, o.Bin)
}

// reduced is the option's value at the present prices.
func (b *branching) reduced(o *option) float64 {
	resources := len(b.p.Resources)
	if o.Choice == none {
		return -b.prices[len(b.prices)-1]
	}
	value, all := o.value, len(b.p.Bins)*resources
	for r, d := range o.demand {
		value -= d * (b.prices[o.Bin*resources+r] + b.prices[all+r])
	}
	return value
}

// bound is the most that plans which go on from here can be worth. It changes the prices for
// the better in so many steps.
func (b *branching) bound(depth int, worth float64, steps int) float64 {
	least := math.Inf(1)
	used := make([]float64, len(b.prices))
	step := 1.0
	var kept []float64
	for n := range steps {
		bound, ok := b.lagrange(depth, used)
		if !ok {
			return math.Inf(-1)
		}
		bound += worth
		if bound < least {
			least, kept = bound, append(kept[:0], b.prices...)
		} else if n%5 == 4 {
			step /= 2
		}
		if least < b.cutoff() {
			break
		}
		b.improve(used, step*(bound-b.best))
	}
	copy(b.prices, kept)
	return least
}

// lagrange is the bound at the present prices, without what is placed already. It writes into
// used by how much each constraint is broken, below 0 where there is room; false if an
// application has no option.
func (b *branching) lagrange(depth int, used []float64) (bound float64, ok bool) {
	resources := len(b.p.Resources)
	all := len(b.p.Bins) * resources
	for s, free := range b.ledger.free {
		for r, x := range free {
			used[s*resources+r] = -x
			bound += b.prices[s*resources+r] * max(0, x)
		}
	}
	for r, x := range b.ledger.left {
		used[all+r] = -x
		bound += b.prices[all+r] * max(0, x)
	}
	last := len(used) - 1
	used[last] = -float64(b.skips)
	bound += b.prices[last] * float64(b.skips)
	for _, i := range b.order[depth:] {
		var best *option
		most := math.Inf(-1)
		for k := range b.options[i] {
			if o := &b.options[i][k]; b.possible(o) {
				if value := b.reduced(o); value > most {
					best, most = o, value
				}
			}
		}
		if best == nil {
			return 0, false
		}
		bound += most
		if best.Choice == none {
			used[last]++
			continue
		}
		for r, d := range best.demand {
			used[best.Bin*resources+r] += d
			used[all+r] += d
		}
	}
	return bound, true
}

// improve moves the prices along the constraints that are broken.
func (b *branching) improve(used []float64, by float64) {
	var norm float64
	for k, x := range used {
		if x > 0 || b.prices[k] > 0 {
			x /= b.scale(k)
			norm += x * x
		}
	}
	if norm == 0 {
		return
	}
	for k, x := range used {
		scale := b.scale(k)
		b.prices[k] = max(0, b.prices[k]+by/norm*x/(scale*scale))
	}
}

// scale is the size of a constraint, so that prices of all are alike.
func (b *branching) scale(k int) float64 {
	resources := len(b.p.Resources)
	switch all := len(b.p.Bins) * resources; {
	case k < all:
		return max(1e-12, b.p.Bins[k/resources].Free[k%resources])
	case k < all+resources:
		return max(1e-12, b.ledger.most[k-all])
	}
	return 1
}
