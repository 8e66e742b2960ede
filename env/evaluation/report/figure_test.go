package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/plotter"
)

// figureOf is a figure of the series.
func figureOf(series ...Series) *Figure {
	return &Figure{ID: "f", Title: "F", X: Axis{Label: "x"}, Y: Axis{Label: "y"}, Series: series}
}

func drawn(t *testing.T, f *Figure) string {
	t.Helper()
	c := checker{ids: map[string]string{}}
	c.figure(f)
	if len(c.faults) > 0 {
		t.Fatal(c.faults)
	}
	svg, err := f.svg(looks([]*Figure{f}))
	if err != nil {
		t.Fatal(err)
	}
	return string(svg)
}

// strokes counts the lines drawn in the first hue, at a series' width.
func strokes(svg string) int {
	return len(regexp.MustCompile(`stroke:var\(--hue1,#00549e\);stroke-width:1\.7`).FindAllString(svg, -1))
}

// Blocks stand side by side, and one that begins before the last has ended begins there.
func TestBlocks(t *testing.T) {
	s := Series{Name: "batches", Style: Band}
	s.Block(0, 2, 5)
	s.Block(2-1e-9, 3, 1)
	s.Block(2.5, 2.75, 4)
	if want := []float64{0, 0, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3}; !slices.Equal(s.X, want) {
		t.Errorf("x %v; want %v", s.X, want)
	}
	if want := []float64{0, 5, 5, 0, 0, 1, 1, 0, 0, 4, 4, 0}; !slices.Equal(s.Hi, want) || len(s.Lo) != len(want) {
		t.Errorf("from %v to %v; want %v", s.Lo, s.Hi, want)
	}
	f := Figure{ID: "blocks", Title: "Blocks", X: Axis{Label: "time"}, Y: Axis{Label: "frames"}, Series: []Series{s}}
	if _, err := f.Standalone(); err != nil {
		t.Error(err)
	}
}

func TestAGapBreaksALine(t *testing.T) {
	x := []float64{1, 2, 3, 4, 5}
	whole := drawn(t, figureOf(Series{Name: "s", Style: Line, X: x, Y: []float64{1, 2, 3, 4, 5}}))
	broken := drawn(t, figureOf(Series{Name: "s", Style: Line, X: x, Y: []float64{1, 2, math.NaN(), 4, 5}}))
	if strokes(whole) != 1 || strokes(broken) != 2 {
		t.Errorf("%d and %d lines, want 1 and 2", strokes(whole), strokes(broken))
	}
}

// TestOddFiguresAreDrawn has no opinion of the look: they must not panic, and
// must hold no coordinate that is not a number.
func TestOddFiguresAreDrawn(t *testing.T) {
	nan := math.NaN()
	many := make([]float64, 20_000)
	for i := range many {
		many[i] = float64(i)
	}
	odd := map[string]*Figure{
		"one point":       figureOf(Series{Name: "s", Style: Line, X: []float64{3}, Y: []float64{2}}),
		"constant":        figureOf(Series{Name: "s", Style: Line, X: []float64{1, 2}, Y: []float64{0, 0}}),
		"all gaps":        figureOf(Series{Name: "s", Style: Line, X: []float64{1, 2}, Y: []float64{nan, nan}}),
		"one x":           figureOf(Series{Name: "s", Style: Line, X: make([]float64, 5000), Y: make([]float64, 5000)}),
		"long":            figureOf(Series{Name: "s", Style: Line, X: many, Y: many, Lo: many, Hi: many}),
		"long steps":      figureOf(Series{Name: "s", Style: Step, X: many, Y: many}),
		"tiny values":     figureOf(Series{Name: "s", Style: Line, X: []float64{1, 2}, Y: []float64{1e-9, 2e-9}}),
		"gaps in bounds":  figureOf(Series{Name: "s", Style: Points, X: []float64{1, 2}, Y: []float64{1, 2}, Lo: []float64{nan, 1}, Hi: []float64{nan, 3}}),
		"gaps in a band":  figureOf(Series{Name: "s", Style: Band, X: []float64{1, 2, 3}, Lo: []float64{1, nan, 1}, Hi: []float64{2, 2, 2}}),
		"log, one x":      figureOf(Series{Name: "s", Style: Line, X: []float64{5}, Y: []float64{1}}),
		"long categories": figureOf(Series{Name: "s", Style: Bars, X: []float64{0, 1}, Y: []float64{-1, nan}}),
	}
	odd["log, one x"].X.Log = true
	odd["long categories"].X.Categories = []string{strings.Repeat("long", 40), "a name of many short words that needs some lines"}
	for name, f := range odd {
		if svg := drawn(t, f); strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("%s: a coordinate is not a number", name)
		}
	}
}

// TestStandInsBecomeRoles fails if the plotting library writes colours in
// another way than themed expects.
func TestStandInsBecomeRoles(t *testing.T) {
	f := figureOf()
	for i := range MaxSeries {
		f.Series = append(f.Series, Series{Name: fmt.Sprint(i), Style: Line,
			X: []float64{1, 2}, Y: []float64{1, 2}, Lo: []float64{0, 1}, Hi: []float64{2, 3}})
	}
	svg := drawn(t, f)
	for _, p := range palette {
		if !strings.Contains(svg, "var(--"+p.name+","+p.light+")") {
			t.Errorf("nothing is drawn in %s", p.name)
		}
	}
	if raw := regexp.MustCompile(`[:"]#[0-9A-Fa-f]{6}`).FindString(svg); raw != "" {
		t.Errorf("a colour %s that the page does not set", raw)
	}
	if strings.Contains(svg, "font-family") {
		t.Error("a typeface that the page does not set")
	}
}

func TestLooks(t *testing.T) {
	with := func(names ...string) *Figure {
		f := &Figure{}
		for _, n := range names {
			f.Series = append(f.Series, Series{Name: n})
		}
		return f
	}
	var crowd []string
	for i := range MaxSeries {
		crowd = append(crowd, fmt.Sprint("crowd ", i))
	}
	figures := []*Figure{with("a", "b", "c"), with("d", "a"), with(crowd...), with("c", "crowd 0", "e", "b")}
	of := looks(figures)
	first := map[string]look{}
	for i, f := range figures {
		seen := map[string]string{}
		for j := range f.Series {
			s := &f.Series[j]
			l := of[s]
			key := fmt.Sprint(l.hue, l.dashes, l.marker.hollow, l.marker.corners(1))
			if other, taken := seen[key]; taken {
				t.Errorf("figure %d: %s and %s look alike", i, s.Name, other)
			}
			seen[key] = s.Name
			if was, known := first[s.Name]; !known {
				first[s.Name] = l
			} else if was.hue != l.hue && len(s.Name) == 1 {
				t.Errorf("figure %d: %s has changed its hue", i, s.Name)
			}
		}
	}
}

func TestThinnedLinesKeepTheirPeaks(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	line := make(plotter.XYs, 50_000)
	for i := range line {
		line[i] = plotter.XY{X: 1 + float64(i), Y: rng.NormFloat64()}
	}
	for _, log := range []bool{false, true} {
		kept := thinned(line, log)
		if len(kept) > 4*places || len(kept) < places/4 {
			t.Errorf("log %v: %d points kept", log, len(kept))
		}
		if kept[0] != line[0] || kept[len(kept)-1] != line[len(line)-1] {
			t.Errorf("log %v: an end is lost", log)
		}
		if !slices.IsSortedFunc(kept, func(a, b plotter.XY) int { return int(a.X - b.X) }) {
			t.Errorf("log %v: out of order", log)
		}
		byY := func(a, b plotter.XY) int { return int(math.Copysign(1, a.Y-b.Y)) }
		if slices.MinFunc(kept, byY) != slices.MinFunc(line, byY) || slices.MaxFunc(kept, byY) != slices.MaxFunc(line, byY) {
			t.Errorf("log %v: a peak is lost", log)
		}
	}
	if short := line[:4*places]; !slices.Equal(thinned(short, false), short) {
		t.Error("a short line has lost points")
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		log       bool
		want      string
	}{
		{0, 1, false, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{-0.045, 0.012, false, "−0.04 −0.03 −0.02 −0.01 0.00 0.01"},
		{0, 10_000, false, "0 2000 4000 6000 8000 10,000"},
		{0, 1_234_567, false, "0 500,000 1,000,000"},
		{0.2, 55, true, "0.2 0.5 1 2 5 10 20 50"},
		{0.01, 1e6, true, "0.01 0.1 1 10 100 1000 10,000 100,000 1,000,000"},
	} {
		ticks := linearTicks(c.low, c.high)
		if c.log {
			ticks = logTicks(c.low, c.high)
		}
		var labels []string
		for _, tick := range ticks {
			if !tick.IsMinor() {
				labels = append(labels, tick.Label)
			}
			if tick.Value < c.low-1e-9 || tick.Value > c.high*(1+1e-9) {
				t.Errorf("%v–%v: a tick at %v", c.low, c.high, tick.Value)
			}
		}
		if got := strings.Join(labels, " "); got != c.want {
			t.Errorf("%v–%v: %s, want %s", c.low, c.high, got, c.want)
		}
	}
}
