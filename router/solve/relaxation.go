package solve

import (
	"math"
	"slices"
)

// relaxation bounds what the last items of a [Chain] can be worth, by the time at which
// they begin: the best of their linear relaxation, in which an item may be any mixture of
// its points. Budgets are nested, so that a greedy choice solves it: the bound is a
// concave function of the slack, made from the last item to the first by merging the
// edges of the items' concave hulls in order of steepness, and cutting off what a budget
// does not leave room for.
type relaxation struct {
	edges  []edge // of all layers
	cuts   []cut  // layer k is of the items from k on
	latest []float64
	hull   []edge
	work   []edge
}

// cut is where a layer's edges are, and its value without slack.
type cut struct {
	from, to int
	base     float64
}

// edge is a stretch of a bound: so much more slack adds value at so much each. The sums are
// over the edges of its layer before it.
type edge struct{ width, slope, slack, value float64 }

// layer is the bound on the items from one on. Begun at latest or before, they can be
// done within their budgets.
type layer struct {
	edges  []edge
	base   float64
	latest float64
}

func (r *relaxation) layer(k int) layer {
	c := r.cuts[k]
	return layer{r.edges[c.from:c.to], c.base, r.latest[k]}
}

// set works out the layers.
func (r *relaxation) set(items []Item) {
	n := len(items)
	r.edges = r.edges[:0]
	r.cuts = slices.Grow(r.cuts[:0], n+1)[:n+1]
	r.latest = slices.Grow(r.latest[:0], n+1)[:n+1]
	r.cuts[n], r.latest[n] = cut{}, math.Inf(1)
	for k := n - 1; k >= 0; k-- {
		r.add(&items[k], k)
	}
}

// add makes layer k of the one after it and the item.
func (r *relaxation) add(item *Item, k int) {
	after := r.layer(k + 1)
	edges, base, end := after.edges, after.base, after.latest
	if item.Budget < end { // what comes after has that much more slack at least
		edges, base = spend(r.copied(edges), base, end-item.Budget)
		end = item.Budget
	}
	r.hull = hull(r.hull[:0], item.Front)
	from := len(r.edges)
	for i, j := 0, 0; i < len(edges) || j < len(r.hull); {
		if j == len(r.hull) || i < len(edges) && edges[i].slope >= r.hull[j].slope {
			r.edges = append(r.edges, edges[i])
			i++
		} else {
			r.edges = append(r.edges, r.hull[j])
			j++
		}
	}
	var slack, value float64
	for i := from; i < len(r.edges); i++ {
		e := &r.edges[i]
		e.slack, e.value = slack, value
		slack += e.width
		value += e.width * e.slope
	}
	r.cuts[k] = cut{from, len(r.edges), base + item.Front[0].Value}
	r.latest[k] = end - item.Front[0].Cost
}

// copied is the edges in memory of their own: those of the layers grow meanwhile.
func (r *relaxation) copied(edges []edge) []edge {
	r.work = append(r.work[:0], edges...)
	return r.work
}

// spend takes slack off the edges, from the steepest on, and returns those that are left
// and the value with what was taken.
func spend(edges []edge, base, slack float64) ([]edge, float64) {
	for len(edges) > 0 && slack > 0 {
		e := &edges[0]
		used := min(slack, e.width)
		base += used * e.slope
		slack -= used
		if e.width -= used; e.width > 0 {
			break
		}
		edges = edges[1:]
	}
	return edges, base
}

// hull appends the edges of the upper concave hull of the front, from its cheapest point
// on.
func hull(dst []edge, f Front) []edge {
	first := len(dst)
	for i := 1; i < len(f); i++ {
		e := edge{width: f[i].Cost - f[i-1].Cost}
		gain := f[i].Value - f[i-1].Value
		e.slope = gain / e.width
		for len(dst) > first && dst[len(dst)-1].slope <= e.slope {
			last := dst[len(dst)-1]
			gain += last.width * last.slope
			e.width += last.width
			e.slope = gain / e.width
			dst = dst[:len(dst)-1]
		}
		dst = append(dst, e)
	}
	return dst
}

// reach reads a layer's bound at costs that rise from one call to the next.
type reach struct {
	layer
	edge int // where the last one was
}

func (l layer) reach() reach { return reach{l, len(l.edges) - 1} }

// at returns the most that the layer's items can add to a state of this cost.
func (r *reach) at(cost float64) float64 {
	slack := max(0, r.latest-cost)
	for r.edge > 0 && r.edges[r.edge].slack >= slack {
		r.edge--
	}
	if r.edge < 0 {
		return r.base
	}
	e := &r.edges[r.edge]
	return r.base + e.value + min(slack-e.slack, e.width)*e.slope
}
