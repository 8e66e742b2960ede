package solve

import (
	"math"
	"slices"
)

// Item is one decision of a [Chain]: exactly one of its points is taken. The costs taken
// for it and for all items before it may add up to Budget, within [Tolerance].
type Item struct {
	Front  Front
	Budget float64
}

// Chain takes one point of each item, in order, so that every item's budget holds and
// the sum of the values is as large as can be. That is a multiple-choice knapsack with a
// capacity for each prefix.
//
// Solve is a dynamic program over the Pareto sets of (cost, value) after each item. A
// state is dropped once the linear relaxation of what follows shows that it cannot lead to
// more than a solution at hand. That solution comes from the same program with few states
// in each set. It is exact unless a set would have more than Limit states, which happens
// where all points lie on a line, so that the relaxation rules out nothing; [Chain.Gap]
// says then how much better the best solution can be at most.
//
// The zero value is ready. A Chain keeps its memory from one call to the next, and
// allocates only where a problem is larger than those before. It is not safe for
// concurrent use.
type Chain struct {
	// Limit is the most states after an item; 0 is 512.
	Limit int

	relaxed relaxation
	states  []state // all layers, one after the other
	layers  []int   // where each begins
	merged  []state // the layer in the making
	spare   []state
	scores  []float64
	picks   []int
	best    float64 // value of the solution at hand
	gap     float64
	slack   float64 // by which costs may exceed budgets
}

// state is a way to take the first items.
type state struct {
	cost, value float64
	from, pick  int32 // the state before, in its layer, and the point taken since
}

// widths are the most states that a layer has in the first rounds. The last round has the
// limit.
var widths = [...]int{16, 256}

const defaultLimit = 512

// Solve writes the index of the point taken of each item into picks and returns the sum
// of their values; false if the budgets cannot all hold. Fronts must not be empty, and
// picks has the items' length.
func (c *Chain) Solve(items []Item, picks []int) (value float64, ok bool) {
	if len(items) == 0 {
		return 0, true
	}
	c.relaxed.set(items)
	c.slack = slack(items)
	all := c.relaxed.layer(0)
	if c.gap = 0; all.latest < -c.slack {
		return 0, false
	}
	c.best = math.Inf(-1)
	c.picks = append(c.picks[:0], picks[:len(items)]...)
	if c.rounds(items) {
		reach := all.reach()
		if c.gap = reach.at(0) - c.best; c.gap <= Tolerance {
			c.gap = 0
		}
	}
	copy(picks, c.picks)
	return c.best, !math.IsInf(c.best, -1)
}

// Gap returns how much more than the last solution the best one may be worth; 0 if it is
// the best.
func (c *Chain) Gap() float64 { return c.gap }

// rounds reports whether a better solution may have been left out.
func (c *Chain) rounds(items []Item) bool {
	limit := c.Limit
	if limit == 0 {
		limit = defaultLimit
	}
	for _, width := range widths {
		if !c.round(items, min(width, limit)) {
			return false
		}
	}
	return c.round(items, limit)
}

// slack is the tolerance of budgets, with what sums in another order may differ by.
func slack(items []Item) float64 {
	largest, sum := 0.0, 0.0
	for i := range items {
		if b := math.Abs(items[i].Budget); !math.IsInf(b, 0) {
			largest = max(largest, b)
		}
		sum += items[i].Front[0].Cost
	}
	return Tolerance + 4*float64(len(items))*0x1p-52*max(largest, sum)
}

// round runs the program with at most so many states a layer and keeps its solution if
// that is better. It reports whether it left out states that might have led to more.
func (c *Chain) round(items []Item, width int) (narrowed bool) {
	c.states = append(c.states[:0], state{from: -1})
	c.layers = append(c.layers[:0], 0)
	for k := range items {
		from, to := c.layers[k], len(c.states)
		c.layers = append(c.layers, to)
		if c.extend(&items[k], c.states[from:to], c.relaxed.layer(k+1), width) {
			narrowed = true
		}
		if len(c.merged) == 0 {
			return narrowed // the solution at hand cannot be improved
		}
		if len(c.merged) > width {
			c.narrow(width, c.relaxed.layer(k+1))
			narrowed = true
		}
		c.states = append(c.states, c.merged...)
	}
	last := len(c.states) - 1 // of a layer, the state that costs most is worth most
	if s := &c.states[last]; s.value > c.best {
		c.best = s.value
		c.trace(last)
	}
	return narrowed
}

// trace writes down which points lead to a state of the last layer.
func (c *Chain) trace(at int) {
	for k := len(c.picks) - 1; k >= 0; k-- {
		c.picks[k] = int(c.states[at].pick)
		at = c.layers[k] + int(c.states[at].from)
	}
}

// extend merges what each point of the item makes of the states into the next layer. It
// leaves out states that break a budget or cannot lead to more than the solution at hand,
// and those that cost no less than another one and are worth no more. It reports whether it
// left out others too, for they were far more than the width.
func (c *Chain) extend(item *Item, states []state, next layer, width int) (narrowed bool) {
	c.merged = c.merged[:0]
	most := min(next.latest, item.Budget) + c.slack
	for p, point := range item.Front {
		c.spare = slices.Grow(c.spare[:0], len(c.merged)+len(states))
		c.merge(states, point, int32(p), most, next.reach())
		c.merged, c.spare = c.spare, c.merged
		if len(c.merged)/4 > width {
			c.narrow(width, next)
			narrowed = true
		}
	}
	return narrowed
}

// merge appends the states merged so far, and those that the point makes of the layer's
// and that cost at most so much, to spare, in order of cost.
func (c *Chain) merge(states []state, point Point, pick int32, most float64, reach reach) {
	old, out := c.merged, c.spare
	for i, j := 0, 0; i < len(old) || j < len(states); {
		var s state
		if j == len(states) || i < len(old) && old[i].cost <= states[j].cost+point.Cost {
			s = old[i]
			i++
		} else {
			s = state{states[j].cost + point.Cost, states[j].value + point.Value, int32(j), pick}
			j++
			if s.cost > most {
				j = len(states) // the others cost more
				continue
			}
			if s.value+reach.at(s.cost) < c.best+Same {
				continue
			}
		}
		switch n := len(out); {
		case n == 0 || s.value > out[n-1].value+Same && s.cost > out[n-1].cost+Same:
			out = append(out, s)
		case s.value > out[n-1].value+Same: // at the same cost
			out[n-1] = s
		}
	}
	c.spare = out
}

// narrow keeps as many of the layer's states, those that may lead to most. Of those that
// may lead to as much as the last of them it keeps some at all costs.
func (c *Chain) narrow(width int, next layer) {
	reach := next.reach()
	c.scores = c.scores[:0]
	for i := range c.merged {
		c.scores = append(c.scores, c.merged[i].value+reach.at(c.merged[i].cost))
	}
	slices.Sort(c.scores)
	least := c.scores[len(c.scores)-width]
	above, even := 0, 0
	for _, score := range c.scores {
		if score > least+Tolerance {
			above++
		} else if score >= least-Tolerance {
			even++
		}
	}
	room, seen, taken := width-above, 0, 0
	reach = next.reach()
	kept := c.merged[:0]
	for i := range c.merged {
		s := c.merged[i]
		switch score := s.value + reach.at(s.cost); {
		case score > least+Tolerance:
			kept = append(kept, s)
		case score >= least-Tolerance:
			if seen++; seen*room/even > taken {
				taken++
				kept = append(kept, s)
			}
		}
	}
	c.merged = kept
}
