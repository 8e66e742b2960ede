// Package solve has the exact optimisers that planners share. It knows costs and values,
// and nothing of what they stand for.
package solve

import (
	"cmp"
	"slices"
)

// Tolerance is the difference below which costs, and values, count as equal.
const Tolerance = 1e-9

// Same is the difference of values that sums in another order may have: points of a
// front that differ by less are one.
const Same = 1e-12

// Point is one way to do something.
type Point struct{ Cost, Value float64 }

// Front is points of which none is as cheap as another and worth no more: both costs and
// values rise.
type Front []Point

// At returns the index of the cheapest point whose value is at least the floor, within
// [Tolerance]; false if there is none.
func (f Front) At(floor float64) (int, bool) {
	i, _ := slices.BinarySearchFunc(f, floor-Tolerance, func(p Point, floor float64) int { return cmp.Compare(p.Value, floor) })
	return i, i < len(f)
}
