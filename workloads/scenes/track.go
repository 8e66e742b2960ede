package scenes

import (
	"image"
	"math"
)

// How [Track] searches, in pixels.
const (
	reach   = 6   // how far an object may have moved, each way
	inner   = 0.3 // half of what is compared, as a part of the box, whose rim has pixels of the background
	samples = 16  // pixels that are compared, each way, at most
)

// window is the grid of pixels of a box that are compared.
type window struct{ x0, y0, x1, y1, dx, dy int }

// Track moves boxes with the pixels below them from a frame to the next, by the shift with the least sum of absolute
// differences, refined to parts of a pixel by the gradients (Lucas and Kanade). It changes neither their size nor their
// number.
func Track(previous, next *image.Gray, boxes []Box) {
	for i := range boxes {
		b := &boxes[i]
		w, ok := windowOf(*b, previous.Rect)
		if !ok {
			continue
		}
		x, y := w.search(previous, next)
		fx, fy := w.refine(previous, next, x, y)
		b.X0, b.Y0, b.X1, b.Y1 = b.X0+fx, b.Y0+fy, b.X1+fx, b.Y1+fy
	}
}

// windowOf returns the window of a box so far within the frame that it can be moved; false if there is none.
func windowOf(b Box, frame image.Rectangle) (w window, ok bool) {
	span := func(low, high float32, size int) (from, to, step int) {
		m, half := (low+high)/2, (high-low)*inner
		from, to = max(int(m-half), reach+1), min(int(m+half)+1, size-reach-2)
		return from, to, max(1, (to-from+samples-1)/samples)
	}
	w.x0, w.x1, w.dx = span(b.X0, b.X1, frame.Dx())
	w.y0, w.y1, w.dy = span(b.Y0, b.Y1, frame.Dy())
	return w, w.x1-w.x0 > 2 && w.y1-w.y0 > 2
}

// search returns the shift of whole pixels with the least difference, of equals the shortest.
func (w *window) search(previous, next *image.Gray) (bestX, bestY int) {
	least := w.difference(previous, next, 0, 0, math.MaxInt)
	for y := -reach; y <= reach; y++ {
		for x := -reach; x <= reach; x++ {
			if d := w.difference(previous, next, x, y, least); d < least || d == least && x*x+y*y < bestX*bestX+bestY*bestY {
				least, bestX, bestY = d, x, y
			}
		}
	}
	return bestX, bestY
}

// difference sums the absolute differences of a shift; what is above most is not counted further.
func (w *window) difference(previous, next *image.Gray, x, y, most int) (sum int) {
	for r := w.y0; r < w.y1 && sum <= most; r += w.dy {
		a, b := previous.Pix[r*previous.Stride:], next.Pix[(r+y)*next.Stride+x:]
		for c := w.x0; c < w.x1; c += w.dx {
			d := int(a[c]) - int(b[c])
			sum += max(d, -d)
		}
	}
	return sum
}

// refine returns the shift to parts of a pixel, from one of whole pixels: least squares, linearised at each of some steps.
func (w *window) refine(previous, next *image.Gray, x, y int) (fx, fy float32) {
	fx, fy = float32(x), float32(y)
	for range 3 {
		var xx, xy, yy, xe, ye float32
		left, top := int(math.Floor(float64(fx))), int(math.Floor(float64(fy)))
		u, v := fx-float32(left), fy-float32(top)
		for r := w.y0; r < w.y1; r += w.dy {
			for c := w.x0; c < w.x1; c += w.dx {
				at := r*previous.Stride + c
				gx := (float32(previous.Pix[at+1]) - float32(previous.Pix[at-1])) / 2
				gy := (float32(previous.Pix[at+previous.Stride]) - float32(previous.Pix[at-previous.Stride])) / 2
				p := next.Pix[(r+top)*next.Stride+c+left:]
				q := p[next.Stride:]
				e := (float32(p[0])*(1-u)+float32(p[1])*u)*(1-v) + (float32(q[0])*(1-u)+float32(q[1])*u)*v - float32(previous.Pix[at])
				xx, xy, yy, xe, ye = xx+gx*gx, xy+gx*gy, yy+gy*gy, xe+gx*e, ye+gy*e
			}
		}
		det := xx*yy - xy*xy
		if det <= 1e-3*(xx+yy)*(xx+yy) { // the pixels do not say where they have moved
			return fx, fy
		}
		dx, dy := (yy*xe-xy*ye)/det, (xx*ye-xy*xe)/det
		if fx, fy = fx-dx, fy-dy; max(fx-float32(x), float32(x)-fx, fy-float32(y), float32(y)-fy) > 1 {
			return float32(x), float32(y)
		}
	}
	return fx, fy
}
