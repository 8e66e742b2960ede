// Package solve has the exact optimisers that planners share. It knows costs and values,
// and nothing of what they stand for.
package solve

import (
	"math"
	"slices"
)

// Tolerance is the difference below which costs, and values, count as equal.
const Tolerance = 1e-9

// same is the difference of values that sums in another order may have: points of a
// front that differ by less are one.
const same = 1e-12

// Point is one way to do something.
type Point struct{ Cost, Value float64 }

// Front is points of which none is as cheap as another and worth no more: both costs and
// values rise.
type Front []Point

// Of returns the front of the points, which it sorts.
func Of(points []Point) Front {
	slices.SortFunc(points, func(a, b Point) int {
		if a.Cost != b.Cost {
			if a.Cost < b.Cost {
				return -1
			}
			return 1
		}
		return -compare(a.Value, b.Value)
	})
	best, kept := math.Inf(-1), points[:0]
	for _, p := range points {
		if p.Value > best+same {
			best, kept = p.Value, append(kept, p)
		}
	}
	return kept
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// At returns the index of the cheapest point whose value is at least the floor, within
// [Tolerance]; false if there is none.
func (f Front) At(floor float64) (int, bool) {
	i, _ := slices.BinarySearchFunc(f, floor-Tolerance, func(p Point, floor float64) int { return compare(p.Value, floor) })
	return i, i < len(f)
}
