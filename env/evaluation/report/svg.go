package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"html/template"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// svg returns the figure as an element of the page, with its title and description
// for those who do not see it.
func (f *Figure) svg(of map[*Series]look) (template.HTML, error) {
	canvas, err := f.drawing(of)
	if err != nil {
		return "", fmt.Errorf("cannot draw figure %q: %w", f.ID, err)
	}
	content, err := content(canvas)
	if err != nil {
		return "", fmt.Errorf("cannot draw figure %q: %w", f.ID, err)
	}
	width, height := f.size()
	var e strings.Builder
	fmt.Fprintf(&e, `<svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox="0 0 %g %g" role="img" aria-labelledby="%[3]s.t %[3]s.d">`,
		width.Points(), height.Points(), f.ID)
	fmt.Fprintf(&e, "\n<title id=\"%[1]s.t\">%[2]s</title>\n<desc id=\"%[1]s.d\">%[3]s</desc>\n%[4]s</svg>",
		f.ID, escaped(f.Title), escaped(f.described()), content)
	return template.HTML(e.String()), nil
}

// Sizes of the sample in a legend, in points.
const sampleWidth, sampleHeight = 36, 14

// sample returns how the series looks, for the legend.
func (s *Series) sample(l look) (template.HTML, error) {
	canvas := vgsvg.New(sampleWidth, sampleHeight)
	c := draw.New(canvas)
	middle := c.Center()
	area := func(opacity float64) {
		c.FillPolygon(l.color(opacity), []vg.Point{
			{X: 1, Y: 1}, {X: 1, Y: sampleHeight - 1}, {X: sampleWidth - 1, Y: sampleHeight - 1}, {X: sampleWidth - 1, Y: 1},
		})
	}
	switch s.Style {
	case Band:
		area(soloBandOpacity)
	case Bars:
		area(barOpacity)
	case Line, Step:
		if len(s.Lo) > 0 {
			area(bandOpacity)
		}
		line := l.line(lineWidth)
		if s.dense() {
			line.Dashes = nil
		}
		c.StrokeLine2(line, 0, middle.Y, sampleWidth, middle.Y)
		if s.Style == Line || !s.dense() {
			c.DrawGlyph(l.glyph(), middle)
		}
	case Points:
		c.DrawGlyph(l.glyph(), middle)
	}
	content, err := content(canvas)
	if err != nil {
		return "", fmt.Errorf("cannot draw the legend of %q: %w", s.Name, err)
	}
	return template.HTML(fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" class="sample" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" aria-hidden="true">`+"\n%s</svg>",
		sampleWidth, sampleHeight, content)), nil
}

// content returns what the canvas's svg element holds, in the page's colours and
// type.
func content(canvas *vgsvg.Canvas) (string, error) {
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return "", err
	}
	_, inner, found := strings.Cut(b.String(), `xlink">`+"\n")
	inner, closed := strings.CutSuffix(inner, "</svg>\n")
	if !found || !closed {
		return "", fmt.Errorf("the plotting library's SVG has a form that is not known: %.200s", b.String())
	}
	return themed(inner), nil
}

var (
	// styles matches attributes alone: a quote in a text is written as an entity.
	styles  = regexp.MustCompile(`style="[^"]*"`)
	standIn = regexp.MustCompile(`#0[78]([0-9A-F])[78]0[78]`)
	fonts   = regexp.MustCompile(`font-family:[^;"]*;font-variant:[^;"]*;font-weight:[^;"]*;font-style:[^;"]*;`)
)

// themed turns each stand-in of a role (see [role]) into the page's variable of
// that name, with the light colour for where there is no page, and leaves the
// typeface to the page.
func themed(svg string) string {
	return styles.ReplaceAllStringFunc(svg, func(style string) string {
		style = fonts.ReplaceAllString(style, "")
		return standIn.ReplaceAllStringFunc(style, func(c string) string {
			r, err := strconv.ParseUint(standIn.FindStringSubmatch(c)[1], 16, 8)
			if err != nil || int(r) >= len(palette) {
				return c
			}
			return "var(--" + palette[r].name + "," + palette[r].light + ")"
		})
	})
}

// described says in words what the figure shows.
func (f *Figure) described() string {
	var d strings.Builder
	fmt.Fprintf(&d, "%s over %s", f.Y.named(), f.X.named())
	if f.X.Log {
		d.WriteString(", on a logarithmic axis")
	}
	d.WriteString(".")
	for i := range f.Series {
		fmt.Fprintf(&d, " %s: %s.", f.Series[i].Name, f.Series[i].extent())
	}
	fmt.Fprintf(&d, " All values are in %s.", csvFile(f.ID))
	return d.String()
}

// extent says from where to where the series goes.
func (s *Series) extent() string {
	values := s.Y
	if s.Style == Band {
		values = slices.Concat(s.Lo, s.Hi)
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if finite(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	if low > high {
		return "no values"
	}
	return fmt.Sprintf("from %.3g to %.3g", low, high)
}

func escaped(s string) string {
	var b bytes.Buffer
	// A buffer takes every byte.
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}

// Standalone returns the figure as an SVG file of its own, with its legend: a picture for a
// page that has no style for it, light or dark as the reader's screen is.
func (f *Figure) Standalone() ([]byte, error) {
	c := checker{ids: map[string]string{}}
	if c.figure(f); len(c.faults) > 0 {
		return nil, fmt.Errorf("cannot draw figure %q: %w", f.ID, c.faults[0])
	}
	of := looks([]*Figure{f})
	drawn, err := f.svg(of)
	if err != nil {
		return nil, err
	}
	width, height := f.size()
	legend, below, err := f.legend(of, width)
	if err != nil {
		return nil, err
	}
	var e strings.Builder
	fmt.Fprintf(&e, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]g %[2]g" width="%[1]g" height="%[2]g">`+"\n",
		width.Points(), (height + below).Points())
	fmt.Fprintf(&e, "<style>%ssvg{font-family:\"Liberation Sans\",Arial,Helvetica,sans-serif}</style>\n", colours())
	e.WriteString(`<rect width="100%" height="100%" style="fill:var(--paper)"/>` + "\n" + legend)
	fmt.Fprintf(&e, `<svg y="%g" width="%g" height="%g"`, below.Points(), width.Points(), height.Points())
	e.WriteString(strings.TrimPrefix(string(drawn), `<svg xmlns="http://www.w3.org/2000/svg" class="plot"`))
	e.WriteString("\n</svg>\n")
	return []byte(e.String()), nil
}

// Stacked returns the figures as one SVG file, below each other.
func Stacked(figures ...*Figure) ([]byte, error) {
	var inner bytes.Buffer
	var width, below float64
	for _, f := range figures {
		one, err := f.Standalone()
		if err != nil {
			return nil, err
		}
		var w, h, wide, high float64
		if _, err := fmt.Sscanf(string(one), `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g">`, &w, &h, &wide, &high); err != nil {
			return nil, fmt.Errorf("cannot stack figure %q: %w", f.ID, err)
		}
		fmt.Fprintf(&inner, "<g transform=\"translate(0,%g)\">\n%s</g>\n", below, one)
		width, below = max(width, wide), below+high
	}
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]g %[2]g" width="%[1]g" height="%[2]g">`+"\n%[3]s</svg>\n", width, below, inner.Bytes()), nil
}

// legend returns a line of samples and names, or several where one is too short, and how high
// they are.
func (f *Figure) legend(of map[*Series]look, width vg.Length) (svg string, height vg.Length, err error) {
	const margin, gap, between, line = 10, 6, 20, sampleHeight + 8
	style := text.Style{Handler: plot.DefaultTextHandler}
	typeset(&style, labelSize)
	var e strings.Builder
	x, y := vg.Length(margin), vg.Length(margin)
	for i := range f.Series {
		s := &f.Series[i]
		sample, err := s.sample(of[s])
		if err != nil {
			return "", 0, err
		}
		wide := sampleWidth + gap + slack*style.Width(s.Name)
		if x > margin && x+wide > width-margin {
			x, y = margin, y+line
		}
		fmt.Fprintf(&e, "<g transform=\"translate(%.5g,%.5g)\">%s<text x=\"%d\" y=\"%g\" style=\"fill:var(--ink);font-size:%gpx\">%s</text></g>\n",
			x.Points(), y.Points(), sample, sampleWidth+gap, sampleHeight-2.5, labelSize, escaped(s.Name))
		x += wide + between
	}
	return e.String(), y + line, nil
}
