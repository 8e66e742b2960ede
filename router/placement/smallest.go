package placement

import "slices"

// placeSmallest places the smallest variant of each application, the smallest first. Where
// that leaves some without, the same is tried with the largest first, of as many as there is
// room for in sum, since small ones fill what large ones leave. The better of the two is kept.
func (g *greedy) placeSmallest() {
	missing := g.placeAll(g.order)
	if missing == 0 {
		return
	}
	before, none := slices.Clone(g.spots), slices.Repeat([]Spot{none}, len(g.spots))
	g.restore(none)
	order := slices.Clone(g.order)
	slices.Reverse(order[:g.inSum(order)])
	if g.placeAll(order) >= missing {
		g.restore(none)
		g.restore(before)
	}
}

// placeAll places applications where most room is, in the order, and returns how many of those
// that have a variant find none.
func (g *greedy) placeAll(order []int) (missing int) {
	for _, i := range order {
		if len(g.choices[i]) == 0 {
			continue
		}
		if s := g.roomiest(i, 0); s >= 0 {
			g.put(i, 0, s)
		} else {
			missing++
		}
	}
	return missing
}

// inSum is how many of the applications, in the order, there is room for with all servers as
// one.
func (g *greedy) inSum(order []int) int {
	left := slices.Clone(g.left)
	for n, i := range order {
		if len(g.choices[i]) == 0 {
			continue
		}
		for r, d := range g.demand(i, 0) {
			if left[r] -= d; left[r] < 0 {
				return n
			}
		}
	}
	return len(order)
}
