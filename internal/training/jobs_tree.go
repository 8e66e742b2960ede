package training

import (
	"cmp"
	"math"
	"slices"

	"gearshift/router/modality"
)

// growth is how a tree of cautions is grown.
type growth struct {
	depth int
	least int     // samples of a leaf
	sure  float64 // standard errors by which a caution must be worth more than none
}

// growths are those among which validation chooses.
var growths = []growth{{2, 100, 2}, {4, 100, 2}, {4, 100, 3}}

// grow makes the tree by which the samples gain most. At each node the comparison is the one after
// which the best caution of either side gains most.
func (g growth) grow(samples []jobsSample) modality.Cautions {
	var t modality.Cautions
	g.branch(&t, slices.Clone(samples), 0)
	return t
}

// branch adds the node of the samples, and those below it.
func (g growth) branch(t *modality.Cautions, samples []jobsSample, depth int) {
	caution, gain := g.best(samples)
	at := len(*t)
	*t = append(*t, modality.CautionNode{Caution: caution})
	if depth == g.depth {
		return
	}
	condition, bound, most := -1, 0.0, gain+1e-12
	for c := range samples[0].conditions {
		if b, total, ok := g.compare(samples, c); ok && total > most {
			condition, bound, most = c, b, total
		}
	}
	if condition < 0 {
		return
	}
	order(samples, condition)
	above, _ := slices.BinarySearchFunc(samples, bound, func(s jobsSample, bound float64) int {
		if s.conditions[condition] <= bound {
			return -1
		}
		return 1
	})
	low := len(*t)
	g.branch(t, samples[:above], depth+1)
	high := len(*t)
	g.branch(t, samples[above:], depth+1)
	(*t)[at] = modality.CautionNode{Condition: condition, Bound: bound, Low: low, High: high}
}

// order sorts the samples by a condition.
func order(samples []jobsSample, condition int) {
	slices.SortStableFunc(samples, func(a, b jobsSample) int { return cmp.Compare(a.conditions[condition], b.conditions[condition]) })
}

// totals are sums over samples of what each caution gains, and of the squares.
type totals struct{ sum, square [len(cautions)]float64 }

func (s *totals) add(x *jobsSample, sign float64) {
	for k, gain := range x.gains {
		s.sum[k] += sign * gain
		s.square[k] += sign * gain * gain
	}
}

// best is the caution that surely gains most, and what it gains for sure. None gains nothing.
func (s *totals) best(sure float64) (k int, gain float64) {
	for i := range s.sum {
		if g := s.sum[i] - sure*math.Sqrt(max(0, s.square[i])); g > gain {
			k, gain = i, g
		}
	}
	return k, gain
}

func (g growth) best(samples []jobsSample) (caution, gain float64) {
	var s totals
	for i := range samples {
		s.add(&samples[i], 1)
	}
	k, gain := s.best(g.sure)
	return cautions[k], gain
}

// compare finds the best bound of a condition; false if no bound leaves enough samples on both sides.
func (g growth) compare(samples []jobsSample, condition int) (bound, gain float64, ok bool) {
	order(samples, condition)
	var below, above totals
	for i := range samples {
		above.add(&samples[i], 1)
	}
	for i := range samples {
		below.add(&samples[i], 1)
		above.add(&samples[i], -1)
		if i+1 < g.least || len(samples)-i-1 < g.least {
			continue
		}
		x, y := samples[i].conditions[condition], samples[i+1].conditions[condition]
		if x == y {
			continue
		}
		_, low := below.best(g.sure)
		_, high := above.best(g.sure)
		if !ok || low+high > gain {
			bound, gain, ok = (x+y)/2, low+high, true
		}
	}
	return bound, gain, ok
}
