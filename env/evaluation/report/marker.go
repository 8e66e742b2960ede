package report

import (
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// marker is a shape on a point: filled, or an outline over a spot of paper, so
// that no line runs through it.
type marker struct {
	corners func(radius vg.Length) []vg.Point // around the origin; none for a disc
	hollow  bool
}

const outlineWidth = 1.2

// DrawGlyph implements [draw.GlyphDrawer].
func (m marker) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	path := m.path(s.Radius, at)
	if !m.hollow {
		c.Fill(path)
		return
	}
	c.SetColor(role(rolePaper, 1))
	c.Fill(path)
	c.SetLineStyle(draw.LineStyle{Color: s.Color, Width: outlineWidth})
	c.Stroke(path)
}

func (m marker) path(radius vg.Length, at vg.Point) vg.Path {
	var p vg.Path
	corners := m.corners(radius)
	for i, corner := range corners {
		if i == 0 {
			p.Move(at.Add(corner))
			continue
		}
		p.Line(at.Add(corner))
	}
	if len(corners) == 0 {
		p.Move(at.Add(vg.Point{X: radius}))
		p.Arc(at, radius, 0, 2*math.Pi)
	}
	p.Close()
	return p
}

// The shapes are of about equal area.

func round(vg.Length) []vg.Point { return nil }

func square(radius vg.Length) []vg.Point {
	r := radius * 0.89
	return []vg.Point{{X: -r, Y: -r}, {X: r, Y: -r}, {X: r, Y: r}, {X: -r, Y: r}}
}

func triangle(radius vg.Length) []vg.Point {
	r := radius * 1.4
	return []vg.Point{{X: -r * 0.87, Y: -r / 2}, {X: r * 0.87, Y: -r / 2}, {X: 0, Y: r}}
}

func diamond(radius vg.Length) []vg.Point {
	r := radius * 1.3
	return []vg.Point{{X: -r}, {Y: -r}, {X: r}, {Y: r}}
}
