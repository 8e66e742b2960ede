package report

import (
	"fmt"
	"math"
	"slices"
)

func (c *checker) figure(f *Figure) {
	c.id("figure", f.ID)
	c.need("title", f.Title)
	c.axis("x", &f.X)
	c.axis("y", &f.Y)
	c.faultIf(len(f.Y.Categories) > 0, "y axis: categories: only the x axis has them")
	c.faultIf(len(f.X.Categories) > 0 && f.X.Log, "x axis: categories have no logarithm")
	c.faultIf(len(f.Series) == 0, "no series")
	c.faultIf(len(f.Series) > MaxSeries, "%d series: want at most %d, which can be told apart", len(f.Series), MaxSeries)
	figure := c.where
	var names []string
	for i := range f.Series {
		s := &f.Series[i]
		c.where = fmt.Sprintf("%s, series %q", figure, s.Name)
		c.need("name", s.Name)
		c.faultIf(slices.Contains(names, s.Name), "another has the same name")
		names = append(names, s.Name)
		c.series(s, f)
	}
	c.where = figure
}

func (c *checker) axis(name string, a *Axis) {
	c.need("label of the "+name+" axis", a.Label)
	if a.Range == nil {
		return
	}
	c.faultIf(!finite(a.Range.Min) || !finite(a.Range.Max) || a.Range.Min >= a.Range.Max, "%s axis: a range from %g to %g", name, a.Range.Min, a.Range.Max)
	c.faultIf(a.Log && a.Range.Min <= 0, "%s axis: a range from %g has no logarithm", name, a.Range.Min)
}

func (c *checker) series(s *Series, f *Figure) {
	n := len(s.X)
	c.faultIf(n == 0, "no points")
	want := func(name string, values []float64, optional bool) {
		c.faultIf(len(values) != n && (len(values) > 0 || !optional), "%d %s at %d x", len(values), name, n)
	}
	switch s.Style {
	case Line, Step, Points, Bars:
		want("y", s.Y, false)
		want("lo", s.Lo, true)
	case Band:
		want("y", s.Y, true)
		want("lo", s.Lo, false)
	default:
		c.fault("unknown style %q", s.Style)
	}
	c.faultIf(len(s.Lo) != len(s.Hi), "%d lo, %d hi", len(s.Lo), len(s.Hi))
	if labels := len(s.Labels); labels > 0 && labels != n {
		c.fault("%d labels at %d x", labels, n)
	}
	c.faultIf(len(s.Labels) > 0 && s.Style != Line && s.Style != Points, "labels name the points of %q and %q, not of %q", Line, Points, s.Style)
	c.faultIf(s.Style == Bars && len(f.X.Categories) == 0, "bars stand over categories: the x axis has none")
	c.faultIf(s.Style == Bars && f.Y.Log, "bars start at 0, which has no logarithm")
	c.values(s, f)
}

func (c *checker) values(s *Series, f *Figure) {
	for i, x := range s.X {
		switch {
		case !finite(x):
			c.fault("x %d is %g: want a finite number", i+1, x)
		case f.X.Log && x <= 0:
			c.fault("x %d is %g, which has no logarithm", i+1, x)
		case len(f.X.Categories) > 0 && (x != math.Trunc(x) || x < 0 || int(x) >= len(f.X.Categories)):
			c.fault("x %d is %g: want the number of a category, 0 to %d", i+1, x, len(f.X.Categories)-1)
		case i > 0 && x < s.X[i-1] && s.Style != Points:
			c.fault("x %d is %g, after %g: want them in order", i+1, x, s.X[i-1])
		}
	}
	c.ordinates("y", s.Y, f.Y.Log)
	c.ordinates("lo", s.Lo, f.Y.Log)
	c.ordinates("hi", s.Hi, f.Y.Log)
	for i := range min(len(s.Lo), len(s.Hi)) {
		c.faultIf(s.Lo[i] > s.Hi[i], "an interval from %g down to %g at x %d", s.Lo[i], s.Hi[i], i+1)
	}
}

func (c *checker) ordinates(name string, values []float64, log bool) {
	for i, v := range values {
		c.faultIf(math.IsInf(v, 0), "%s %d is infinite: want NaN for a gap", name, i+1)
		c.faultIf(log && v <= 0, "%s %d is %g, which has no logarithm", name, i+1, v)
	}
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
