package placement

import "slices"

// placeSmallest places the smallest variant of each application, the smallest first. Where
// that leaves some without for which there is room in sum, the same is tried with the largest
// first, of as many as there is room for, since small ones fill what large ones leave. The
// better of the two is kept.
func (g *greedy) placeSmallest() {
	possible := g.inSum(g.order)
	missing := g.placeAll(g.order)
	if missing == 0 || missing <= len(g.order)-possible {
		return
	}
	again := &greedy{ledger: g.p.ledger(), spots: slices.Repeat([]Spot{none}, len(g.spots)), on: make([][]int, len(g.on)),
		order: slices.Clone(g.order), choices: g.choices, level: make([]int, len(g.level)), thorough: g.thorough}
	again.fill()
	slices.Reverse(again.order[:possible])
	if again.placeAll(again.order) < missing {
		again.order = g.order
		*g = *again
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
