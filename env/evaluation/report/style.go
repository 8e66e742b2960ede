package report

import (
	"image/color"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The colours of a figure are roles, which the page gives a value each in its
// light and its dark form. gonum/plot knows colours only, so a role travels
// through it as the high half of the green channel; see [themed].
const (
	roleInk   = iota // text and axes
	roleGrid         // grid lines
	rolePaper        // what lies behind
	roleFirst        // the first of the series' hues
)

const hues = 8

// palette holds each role's colour in the light and in the dark form of the
// page. The hues keep a contrast of 3:1 or more to the paper, and apart from
// each other under protanopia and deuteranopia; dashes and markers differ too.
var palette = [roleFirst + hues]struct{ name, light, dark string }{
	roleInk:       {"ink", "#1f2328", "#e6e9ec"},
	roleGrid:      {"grid", "#d9dde1", "#363c43"},
	rolePaper:     {"paper", "#ffffff", "#15181c"},
	roleFirst + 0: {"hue1", "#00549e", "#5aa9f0"}, // blue
	roleFirst + 1: {"hue2", "#bb3700", "#ff8a4c"}, // vermilion
	roleFirst + 2: {"hue3", "#00875f", "#2cc795"}, // green
	roleFirst + 3: {"hue4", "#8f2d74", "#e58ac4"}, // purple
	roleFirst + 4: {"hue5", "#a38000", "#e8c547"}, // ochre
	roleFirst + 5: {"hue6", "#2e95d3", "#b5e3fa"}, // sky
	roleFirst + 6: {"hue7", "#1f1f1f", "#f5f5f5"}, // ink
	roleFirst + 7: {"hue8", "#858585", "#8e949b"}, // grey
}

// role returns the stand-in colour of a role, opaque for an alpha of 1.
func role(r int, alpha float64) color.Color {
	return color.NRGBA{R: 8, G: uint8(r<<4 | 8), B: 8, A: uint8(255*alpha + 0.5)}
}

// look is how a series is told from the others of its figure.
type look struct {
	hue    int
	dashes []vg.Length
	marker marker
}

// dashings and markers are as many as hues; the second half of the looks pairs
// them otherwise.
var dashings = [hues][]vg.Length{
	nil, {7, 3}, {2.2, 2}, {8, 2.5, 2, 2.5}, {13, 3.5}, {5, 2, 2, 2, 2, 2}, {4, 1.8}, {9, 2, 4, 2},
}

var markers = [hues]marker{
	{corners: round}, {corners: square}, {corners: triangle}, {corners: diamond},
	{round, true}, {square, true}, {triangle, true}, {diamond, true},
}

func lookOf(i int) look {
	hue := i % hues
	shape := (hue + i/hues*hues/2) % hues
	return look{hue, dashings[shape], markers[shape]}
}

func (l look) color(alpha float64) color.Color { return role(roleFirst+l.hue, alpha) }

func (l look) line(width vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: l.color(1), Width: width, Dashes: l.dashes}
}

// looks gives each series of the figures its look: of one name, the same
// everywhere, unless two such would meet in a figure alike.
func looks(figures []*Figure) map[*Series]look {
	of := map[*Series]look{}
	byName := map[string]int{}
	for _, f := range figures {
		var taken [MaxSeries]bool
		for i := range f.Series {
			if l, known := byName[f.Series[i].Name]; known && !taken[l] {
				of[&f.Series[i]], taken[l] = lookOf(l), true
			}
		}
		for i := range f.Series {
			s := &f.Series[i]
			if _, done := of[s]; done {
				continue
			}
			l := free(taken, byName)
			of[s], taken[l] = lookOf(l), true
			if _, known := byName[s.Name]; !known {
				byName[s.Name] = l
			}
		}
	}
	return of
}

// free returns a look not taken in a figure: of those, if it can be, one in a hue
// that is new to the figure, and one that no name has yet.
func free(taken [MaxSeries]bool, byName map[string]int) int {
	var named [MaxSeries]bool
	for _, l := range byName {
		named[l] = true
	}
	best, least := 0, math.MaxInt
	for l := range taken {
		cost := 0
		if taken[l%hues] || taken[l%hues+hues] {
			cost += 2
		}
		if named[l] {
			cost++
		}
		if !taken[l] && cost < least {
			best, least = l, cost
		}
	}
	return best
}

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
