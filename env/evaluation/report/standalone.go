package report

import (
	"fmt"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// Standalone is the figure as an SVG file of its own, with its legend: a picture for a
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

// legend is a line of samples and names, or several where one is too short, and how high
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
