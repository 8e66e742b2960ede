package report

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Sizes of a drawing, in points; the page scales it.
const (
	fullWidth, fullHeight = 700, 350
	halfWidth, halfHeight = 460, 310

	labelSize, tickSize  = 12.5, 11.5
	lineWidth            = 1.7
	denseWidth           = 1.0 // of a line with more points than can be told apart
	axisWidth, gridWidth = 0.8, 0.5
	markerRadius         = 3
	bandOpacity          = 0.16
	soloBandOpacity      = 0.30 // of a [Band], which has no line
	barOpacity           = 0.80
	barsShare            = 0.8 // of a category's width
)

// A line of up to sparse points has a marker on each, a longer one on about
// that many divided by two.
const sparse = 40

// typeface is measured with; the page's own sans-serif is drawn.
var typeface = font.Font{Typeface: "Liberation", Variant: "Sans"}

// size of the figure's drawing.
func (f *Figure) size() (width, height vg.Length) {
	if f.Half {
		return halfWidth, halfHeight
	}
	return fullWidth, fullHeight
}

// drawing draws the valid figure as gonum/plot's SVG.
func (f *Figure) drawing(of map[*Series]look) (*vgsvg.Canvas, error) {
	p := blank()
	scaled(&p.X, &f.X)
	scaled(&p.Y, &f.Y)
	width, height := f.size()
	if names := f.X.Categories; len(names) > 0 {
		categorical(p, names, width-yAxisRoom)
	}
	p.Add(f.grid())
	for _, layer := range []func(*plot.Plot, *Figure, *Series, look) error{addBand, addBars, addLine, addErrors, addMarkers} {
		for i := range f.Series {
			s := &f.Series[len(f.Series)-1-i] // the first lies on top
			if err := layer(p, f, s, of[s]); err != nil {
				return nil, err
			}
		}
	}
	if f.labelled() {
		p.Add(labels{f, of})
	}
	f.frame(p)
	canvas := vgsvg.New(width, height)
	p.Draw(draw.Crop(draw.New(canvas), 2, -8, 2, -4))
	return canvas, nil
}

// yAxisRoom is about what the Y axis's labels take of a figure's width.
const yAxisRoom = 60

// frame sets the ranges once all series are there.
func (f *Figure) frame(p *plot.Plot) {
	if len(f.X.Categories) > 0 {
		p.X.Min, p.X.Max = -0.5, float64(len(f.X.Categories))-0.5
	} else {
		roomy(&p.X, &f.X)
	}
	roomy(&p.Y, &f.Y)
	for _, axis := range []struct {
		plot *plot.Axis
		own  *Range
	}{{&p.X, f.X.Range}, {&p.Y, f.Y.Range}} {
		if axis.own != nil {
			axis.plot.Min, axis.plot.Max = axis.own.Min, axis.own.Max
		}
	}
}

// blank returns an empty plot in the page's type and colours.
func blank() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Padding = 0
		axis.Color, axis.Width = role(roleInk, 1), axisWidth
		axis.Tick.Color, axis.Tick.Width, axis.Tick.Length = role(roleInk, 1), axisWidth, 5
		typeset(&axis.Label.TextStyle, labelSize)
		typeset(&axis.Tick.Label, tickSize)
		axis.Label.Padding = 5
	}
	return p
}

func typeset(style *text.Style, size vg.Length) {
	style.Font, style.Color = font.From(typeface, size), role(roleInk, 1)
}

// grid has lines at the labels of the axes, except the names of categories.
func (f *Figure) grid() *plotter.Grid {
	line := draw.LineStyle{Color: role(roleGrid, 1), Width: gridWidth}
	g := &plotter.Grid{Vertical: line, Horizontal: line}
	if len(f.X.Categories) > 0 {
		g.Vertical.Color = nil
	}
	return g
}

// addBand shades the interval of a line, or a band.
func addBand(p *plot.Plot, f *Figure, s *Series, l look) error {
	opacity := bandOpacity
	switch s.Style {
	case Band:
		opacity = soloBandOpacity
	case Line, Step:
	default:
		return nil
	}
	for _, area := range s.bands(f.X.Log) {
		if err := addArea(p, l.color(opacity), draw.LineStyle{}, area); err != nil {
			return err
		}
	}
	return nil
}

func addArea(p *plot.Plot, fill color.Color, edge draw.LineStyle, outline plotter.XYs) error {
	area, err := plotter.NewPolygon(outline)
	if err != nil {
		return err
	}
	area.Color, area.LineStyle = fill, edge
	p.Add(area)
	return nil
}

// addBars draws a series' bars in its place within each category.
func addBars(p *plot.Plot, f *Figure, s *Series, l look) error {
	if s.Style != Bars {
		return nil
	}
	offset, width := f.place(s)
	for _, run := range s.runs(s.Y) {
		for _, at := range run {
			left, right := at.X+offset-width/2, at.X+offset+width/2
			outline := plotter.XYs{{X: left}, {X: left, Y: at.Y}, {X: right, Y: at.Y}, {X: right}}
			edge := draw.LineStyle{Color: l.color(1), Width: axisWidth}
			if err := addArea(p, l.color(barOpacity), edge, outline); err != nil {
				return err
			}
		}
	}
	return nil
}

// place returns where within a category a series of bars or points stands, so that
// none hides another: the offset of its middle and its width, both 0 where the
// X axis is a quantity.
func (f *Figure) place(s *Series) (offset, width float64) {
	if len(f.X.Categories) == 0 || s.Style != Bars && s.Style != Points {
		return 0, 0
	}
	var beside, at int
	for i := range f.Series {
		if other := &f.Series[i]; other.Style == Bars || other.Style == Points {
			if other == s {
				at = beside
			}
			beside++
		}
	}
	width = barsShare / float64(beside)
	return (float64(at) - float64(beside-1)/2) * width, width
}

func addLine(p *plot.Plot, f *Figure, s *Series, l look) error {
	if s.Style != Line && s.Style != Step {
		return nil
	}
	for _, run := range s.runs(s.Y) {
		line, err := plotter.NewLine(thinned(run, f.X.Log))
		if err != nil {
			return err
		}
		line.LineStyle = l.line(lineWidth)
		if s.dense() {
			line.Width, line.Dashes = denseWidth, nil
		}
		p.Add(line)
	}
	return nil
}

// dense series have more points than can be told apart: dashes would be noise.
func (s *Series) dense() bool { return len(s.X) > 5*sparse }

// addErrors draws the intervals of points and bars.
func addErrors(p *plot.Plot, f *Figure, s *Series, l look) error {
	if s.Style != Points && s.Style != Bars {
		return nil
	}
	offset, _ := f.place(s)
	var bars errorBars
	for i := range s.Lo {
		half := (s.Hi[i] - s.Lo[i]) / 2
		if finite(half) {
			bars.XYs = append(bars.XYs, plotter.XY{X: s.X[i] + offset, Y: s.Lo[i] + half})
			bars.YErrors = append(bars.YErrors, struct{ Low, High float64 }{half, half})
		}
	}
	if len(bars.XYs) == 0 {
		return nil
	}
	drawn, err := plotter.NewYErrorBars(bars)
	if err != nil {
		return err
	}
	drawn.LineStyle = draw.LineStyle{Color: l.color(1), Width: lineWidth * 0.7}
	if s.Style == Bars {
		drawn.Color = role(roleInk, 1)
	}
	p.Add(drawn)
	return nil
}

// errorBars centre on the interval, which need not be where Y is.
type errorBars struct {
	plotter.XYs
	plotter.YErrors
}

func addMarkers(p *plot.Plot, f *Figure, s *Series, l look) error {
	if s.Style == Bars || s.Style == Band || s.Style == Step && s.dense() {
		return nil
	}
	offset, _ := f.place(s)
	var at plotter.XYs
	for i, y := range s.Y {
		if finite(y) && s.marked(i, l) {
			at = append(at, plotter.XY{X: s.X[i] + offset, Y: y})
		}
	}
	if len(at) == 0 {
		return nil
	}
	drawn, err := plotter.NewScatter(at)
	if err != nil {
		return err
	}
	drawn.GlyphStyle = l.glyph()
	p.Add(drawn)
	return nil
}

func (l look) glyph() draw.GlyphStyle {
	return draw.GlyphStyle{Color: l.color(1), Radius: markerRadius, Shape: l.marker}
}

// marked reports whether the i-th point has a marker. Those of a long line are
// spread out, at other places for each look.
func (s *Series) marked(i int, l look) bool {
	if s.Style == Points || len(s.X) <= sparse {
		return true
	}
	every := 2 * len(s.X) / sparse
	return i%every == (2*l.hue+1)*every/(2*hues)
}
