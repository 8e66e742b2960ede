package report

import (
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// labels draws the labels of a figure's points, each in its series' colour where it hides
// the least.
type labels struct {
	figure *Figure
	of     map[*Series]look
}

// labelGap is between a point and its label, in points.
const labelGap = 5

// slack is by how much a reader's typeface may be wider than what is measured with.
const slack = 1.06

// What it costs a label to hide something: a spot of a line, another label or a
// marker, or to leave the drawing, where it is cut off.
const (
	overLine = 1
	overMark = 10
	overEdge = 1000
)

// obstacle is what a label should not hide, and what it costs to.
type obstacle struct {
	vg.Rectangle
	cost int
}

// labelled reports whether a point of the figure has a label.
func (f *Figure) labelled() bool {
	return slices.ContainsFunc(f.Series, func(s Series) bool { return len(s.Labels) > 0 })
}

// label returns that of the i-th point.
func (s *Series) label(i int) string {
	if len(s.Labels) == 0 {
		return ""
	}
	return s.Labels[i]
}

// Plot implements [plot.Plotter].
func (l labels) Plot(c draw.Canvas, p *plot.Plot) {
	obstacles := l.drawn(&c, p)
	for i := range l.figure.Series {
		s := &l.figure.Series[i]
		style := l.style(s)
		for j, at := range l.points(s, &c, p) {
			if s.label(j) == "" || !finite(s.Y[j]) {
				continue
			}
			if edge, down, beyond := onEdge(&c, at); beyond {
				at = edge
				arrow := l.of[s]
				arrow.marker = marker{corners: pointing(down)}
				glyph := arrow.glyph()
				c.SetColor(glyph.Color)
				glyph.Shape.DrawGlyph(&c, glyph, at)
			}
			place := placed(&c, style, at, s.label(j), obstacles)
			c.FillText(style, place.Min, s.label(j))
			obstacles = append(obstacles, obstacle{place, overMark})
		}
	}
}

// style returns the label's type, from its lower left corner.
func (l labels) style(s *Series) text.Style {
	style := text.Style{Handler: plot.DefaultTextHandler, XAlign: text.XLeft, YAlign: text.YBottom}
	typeset(&style, tickSize)
	style.Color = l.of[s].color(1)
	return style
}

// points returns where the series' points stand on the canvas.
func (l labels) points(s *Series, c *draw.Canvas, p *plot.Plot) []vg.Point {
	x, y := p.Transforms(c)
	at := make([]vg.Point, len(s.Y))
	for i := range at {
		at[i] = vg.Point{X: x(s.X[i]), Y: y(s.Y[i])}
	}
	return at
}

// drawn returns what stands there before any label: markers, and spots along lines.
func (l labels) drawn(c *draw.Canvas, p *plot.Plot) []obstacle {
	const spots, spot = 24, 1
	var all []obstacle
	for i := range l.figure.Series {
		s := &l.figure.Series[i]
		at := l.points(s, c, p)
		for j := range at {
			all = append(all, obstacle{around(at[j], markerRadius+1), overMark})
			for k := 1; s.Style == Line && j > 0 && k < spots; k++ {
				way := vg.Length(k) / spots
				on := vg.Point{X: at[j-1].X + way*(at[j].X-at[j-1].X), Y: at[j-1].Y + way*(at[j].Y-at[j-1].Y)}
				all = append(all, obstacle{around(on, spot), overLine})
			}
		}
	}
	return all
}

func around(at vg.Point, radius vg.Length) vg.Rectangle {
	r := vg.Point{X: radius, Y: radius}
	return vg.Rectangle{Min: at.Sub(r), Max: at.Add(r)}
}

// onEdge returns where a point above or below the canvas is shown, and whether it is below.
func onEdge(c *draw.Canvas, at vg.Point) (edge vg.Point, down, beyond bool) {
	const inside = 2 * markerRadius
	switch {
	case at.Y < c.Min.Y:
		return vg.Point{X: at.X, Y: c.Min.Y + inside}, true, true
	case at.Y > c.Max.Y:
		return vg.Point{X: at.X, Y: c.Max.Y - inside}, false, true
	}
	return at, false, false
}

// placed finds the label's position next to a point, the first of those that hide the least.
func placed(c *draw.Canvas, style text.Style, at vg.Point, label string, obstacles []obstacle) (best vg.Rectangle) {
	width, height := slack*style.Width(label), style.Height(label)
	least := -1
	for _, gap := range []vg.Length{labelGap, 2.5 * labelGap, 4 * labelGap} {
		for _, d := range sides(gap, width, height) {
			low := at.Add(d)
			place := vg.Rectangle{Min: low, Max: low.Add(vg.Point{X: width, Y: height})}
			if cost := hiding(c, place, obstacles); least < 0 || cost < least {
				best, least = place, cost
			}
		}
	}
	return best
}

// sides returns where a label's lower left corner can be, from its point: right, left, above,
// below, and then at the corners.
func sides(gap, width, height vg.Length) []vg.Point {
	return []vg.Point{
		{X: gap, Y: -height / 2}, {X: -gap - width, Y: -height / 2},
		{X: -width / 2, Y: gap}, {X: -width / 2, Y: -gap - height},
		{X: gap, Y: gap / 2}, {X: gap, Y: -gap/2 - height},
		{X: -gap - width, Y: gap / 2}, {X: -gap - width, Y: -gap/2 - height},
	}
}

// hiding returns what a label in a place costs.
func hiding(c *draw.Canvas, place vg.Rectangle, obstacles []obstacle) int {
	var sum int
	if !c.Contains(place.Min) || !c.Contains(place.Max) {
		sum += overEdge
	}
	for _, o := range obstacles {
		if place.Min.X < o.Max.X && o.Min.X < place.Max.X && place.Min.Y < o.Max.Y && o.Min.Y < place.Max.Y {
			sum += o.cost
		}
	}
	return sum
}

// pointing returns the corners of an arrow down or up.
func pointing(down bool) func(vg.Length) []vg.Point {
	return func(radius vg.Length) []vg.Point {
		corners := triangle(1.3 * radius)
		if down {
			for i := range corners {
				corners[i].Y = -corners[i].Y
			}
		}
		return corners
	}
}
