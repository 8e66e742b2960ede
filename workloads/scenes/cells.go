package scenes

import (
	"cmp"
	"math"
	"slices"
)

// A detector sees a frame as a square of Side pixels each way, and divides it into Cells cells each way. For each cell, row
// by row, it gives Values numbers: how certain it is that an object's middle is near (the logarithm of the odds), and
// the logarithms of the distances from the cell's middle to the left, upper, right and lower side of the object, in
// units of [unit].
const (
	Side   = 128
	Cells  = 16
	Values = 5
)

// unit is a distance in pixels, about half the size of an object.
const unit = 24

// An object is assumed where the first number is above sure, and one for all boxes that overlap more than same.
const (
	sure = -1.5
	same = 0.4
)

// middle returns that of a cell, in pixels of a frame.
func middle(cell int) (x, y float32) {
	return (float32(cell%Cells) + 0.5) * Width / Cells, (float32(cell/Cells) + 0.5) * Height / Cells
}

func exp(x float32) float32 { return float32(math.Exp(float64(x))) }

// scored is a box of one cell.
type scored struct {
	Box
	score float32
}

// Found returns the boxes that the outputs of a detector for a frame have, the surest first. A
// box is the mean of those of one object, by their odds.
func Found(outputs []float32) (boxes []Box) {
	var list []scored
	for i := range Cells * Cells {
		o := outputs[i*Values:][:Values]
		if o[0] > sure {
			x, y := middle(i)
			list = append(list, scored{Box{x - unit*exp(o[1]), y - unit*exp(o[2]), x + unit*exp(o[3]), y + unit*exp(o[4])}.within(), o[0]})
		}
	}
	slices.SortStableFunc(list, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	for len(list) > 0 {
		var sum Box
		var weight float32
		best, rest := list[0].Box, list[:0]
		for k, s := range list {
			if k > 0 && IoU(best, s.Box) <= same {
				rest = append(rest, s)
				continue
			}
			w := 1 / (1 + exp(-s.score))
			sum.X0, sum.Y0, sum.X1, sum.Y1 = sum.X0+w*s.X0, sum.Y0+w*s.Y0, sum.X1+w*s.X1, sum.Y1+w*s.Y1
			weight += w
		}
		boxes = append(boxes, Box{sum.X0 / weight, sum.Y0 / weight, sum.X1 / weight, sum.Y1 / weight})
		list = rest
	}
	return boxes
}

// Loss returns the loss of the outputs for a frame with those boxes, and writes its gradient: for each cell the
// cross-entropy of whether it is near the middle of an object, and for those that are the logarithm of the IoU,
// divided by their number.
func Loss(boxes []Box, outputs, gradient []float32) (loss float64) {
	const boxWeight = 2
	near := 0
	for i := range Cells * Cells {
		o, g := outputs[i*Values:][:Values], gradient[i*Values:][:Values]
		loss += math.Log1p(math.Exp(-math.Abs(float64(o[0])))) + float64(max(o[0], 0))
		g[0] = 1 / (1 + exp(-o[0]))
		if b := owner(boxes, i); b != nil {
			near++
			loss -= float64(o[0])
			g[0]--
			loss += boxWeight * boxLoss(b, i, o[1:], g[1:])
			for k := range g[1:] {
				g[1+k] *= boxWeight
			}
		} else {
			clear(g[1:])
		}
	}
	scale := 1 / float32(max(1, near))
	for i := range gradient {
		gradient[i] *= scale
	}
	return loss * float64(scale)
}

// owner returns the box near whose middle a cell is, the last of several.
func owner(boxes []Box, cell int) *Box {
	const part = 0.2
	x, y := middle(cell)
	for i := len(boxes) - 1; i >= 0; i-- {
		b := &boxes[i]
		dx, dy := x-(b.X0+b.X1)/2, y-(b.Y0+b.Y1)/2
		if max(dx, -dx) < max(part*(b.X1-b.X0), Width/Cells/2) && max(dy, -dy) < max(part*(b.Y1-b.Y0), Height/Cells/2) &&
			x > b.X0 && x < b.X1 && y > b.Y0 && y < b.Y1 {
			return b
		}
	}
	return nil
}

// boxLoss returns −ln IoU of a box and that of a cell's four distances, and writes the gradient.
func boxLoss(b *Box, cell int, o, g []float32) float64 {
	x, y := middle(cell)
	var d, shared [4]float64 // left, upper, right, lower
	for k, want := range [4]float32{x - b.X0, y - b.Y0, b.X1 - x, b.Y1 - y} {
		d[k] = unit * math.Exp(float64(o[k]))
		shared[k] = min(d[k], float64(want))
	}
	w, h := d[0]+d[2], d[1]+d[3]
	sw, sh := shared[0]+shared[2], shared[1]+shared[3]
	all := w*h + float64(b.area()) - sw*sh
	for k := range d {
		own, common := h, sh // what a pixel more adds to the areas
		if k%2 == 1 {
			own, common = w, sw
		}
		if shared[k] < d[k] {
			common = 0
		}
		g[k] = float32(d[k] * ((own-common)/all - common/(sw*sh)))
	}
	return math.Log(all / (sw * sh))
}
