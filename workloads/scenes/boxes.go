package scenes

import "slices"

// Box is a rectangle in pixels of a frame.
type Box struct{ X0, Y0, X1, Y1 float32 }

func (b Box) area() float32 { return max(0, b.X1-b.X0) * max(0, b.Y1-b.Y0) }

// within returns what of the box is in the frame.
func (b Box) within() Box {
	return Box{max(b.X0, 0), max(b.Y0, 0), min(b.X1, Width), min(b.Y1, Height)}
}

// IoU returns the area that two boxes share, divided by that which they cover together.
func IoU(a, b Box) float64 {
	shared := Box{max(a.X0, b.X0), max(a.Y0, b.Y0), min(a.X1, b.X1), min(a.Y1, b.Y1)}.area()
	if shared == 0 {
		return 0
	}
	return float64(shared / (a.area() + b.area() - shared))
}

// Accuracy returns how well boxes are those of a frame, as far as they are within it: the mean IoU of pairs, of which the
// best come first and each box is in one. A box that is missing and one that is too many count as a pair of 0, so that
// the sum is divided by the larger of both numbers. Without any box it is 1.
func Accuracy(found, exact []Box) float64 {
	if len(found)+len(exact) == 0 {
		return 1
	}
	var sum float64
	free := slices.Clone(exact)
	rest := make([]Box, len(found))
	for i, b := range found {
		rest[i] = b.within()
	}
	for len(rest) > 0 && len(free) > 0 {
		var best float64
		var i, k int
		for a := range rest {
			for b := range free {
				if x := IoU(rest[a], free[b]); x > best {
					best, i, k = x, a, b
				}
			}
		}
		if best == 0 {
			break
		}
		sum += best
		rest, free = slices.Delete(rest, i, i+1), slices.Delete(free, k, k+1)
	}
	return sum / float64(max(len(found), len(exact)))
}
