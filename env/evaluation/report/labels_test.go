package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// crowded is a figure of two lines that nearly touch, each point with a label.
func crowded() *Figure {
	return figureOf(
		Series{Name: "a", Style: Line, X: []float64{1, 1.2, 5}, Y: []float64{1, 1.02, 2}, Labels: []string{"first of a", "second of a", "third of a"}},
		Series{Name: "b", Style: Line, X: []float64{1, 1.2, 5}, Y: []float64{1.01, 1.03, 2.01}, Labels: []string{"first of b", "", "third of b"}},
	)
}

func TestLabelsAreDrawnOnce(t *testing.T) {
	svg := drawn(t, crowded())
	for _, label := range []string{"first of a", "second of a", "third of a", "first of b", "third of b"} {
		if n := strings.Count(svg, ">"+label+"<"); n != 1 {
			t.Errorf("%q is drawn %d times", label, n)
		}
	}
}

// A label goes where nothing stands: not on another, not on a marker, not over the edge.
func TestLabelsHideNothing(t *testing.T) {
	c := draw.New(vgsvg.New(200, 100))
	f := crowded()
	style := labels{f, looks([]*Figure{f})}.style(&f.Series[0])
	at := vg.Point{X: 5, Y: 50}
	if place := placed(&c, style, at, "label", nil); place.Min.X <= at.X {
		t.Errorf("beside nothing it is at %v, want right of %v", place, at)
	}
	right := obstacle{vg.Rectangle{Min: vg.Point{X: 10, Y: 45}, Max: vg.Point{X: 60, Y: 55}}, overMark}
	place := placed(&c, style, at, "label", []obstacle{right})
	if hiding(&c, place, []obstacle{right}) != 0 {
		t.Errorf("at %v it hides %v, or is cut off", place, right)
	}
	if all := (obstacle{vg.Rectangle{Max: vg.Point{X: 200, Y: 100}}, overLine}); hiding(&c, placed(&c, style, at, "label", []obstacle{all}), nil) != 0 {
		t.Error("where all is taken it is cut off")
	}
}

// A labelled point that lies outside the axis stands on its edge, as an arrow; one without a
// label is not drawn.
func TestPointsBeyondTheAxis(t *testing.T) {
	f := figureOf(
		Series{Name: "line", Style: Line, X: []float64{1, 2}, Y: []float64{8, 9}},
		Series{Name: "far", Style: Points, X: []float64{1.2, 1.5, 1.8}, Y: []float64{0, 100, 0}, Labels: []string{"far below", "far above", ""}},
	)
	f.Y.Range = &Range{Min: 7, Max: 10}
	svg := drawn(t, f)
	arrows := regexp.MustCompile(`<path d="[^"]*"\s+style="fill:var\(--hue2,`).FindAllString(svg, -1)
	if len(arrows) != 2 {
		t.Errorf("%d arrows, want one for each label:\n%v", len(arrows), arrows)
	}
	for _, label := range f.Series[1].Labels[:2] {
		if !strings.Contains(svg, ">"+label+"<") {
			t.Errorf("no %q", label)
		}
	}
	c := draw.New(vgsvg.New(100, 100))
	for y, want := range map[vg.Length][2]bool{-5: {true, true}, 50: {false, false}, 120: {false, true}} {
		edge, down, beyond := onEdge(&c, vg.Point{X: 10, Y: y})
		if down != want[0] || beyond != want[1] || !c.Contains(edge) {
			t.Errorf("at %v it is shown at %v, below %v, beyond %v", y, edge, down, beyond)
		}
	}
}

func TestFaultyLabels(t *testing.T) {
	for want, s := range map[string]Series{
		"1 labels at 2 x":      {Name: "s", Style: Line, X: []float64{1, 2}, Y: []float64{1, 2}, Labels: []string{"one"}},
		`not of "band"`:        {Name: "s", Style: Band, X: []float64{1}, Lo: []float64{1}, Hi: []float64{2}, Labels: []string{"one"}},
		"y 1 is infinite":      {Name: "s", Style: Points, X: []float64{1}, Y: []float64{math.Inf(1)}, Labels: []string{"one"}},
		"2 labels at 1 x":      {Name: "s", Style: Points, X: []float64{1}, Y: []float64{1}, Labels: []string{"one", "two"}},
		`points of "line" and`: {Name: "s", Style: Step, X: []float64{1}, Y: []float64{1}, Labels: []string{"one"}},
	} {
		c := checker{ids: map[string]string{}}
		c.figure(figureOf(s))
		if err := errors.Join(c.faults...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The files of a figure hold its labels, and those of one without any have no column for them.
func TestLabelsInFiles(t *testing.T) {
	text, err := crowded().csv()
	if err != nil {
		t.Fatal(err)
	}
	rows := records(t, string(text))
	if len(rows) != 6 || rows[1]["label"] != "second of a" || rows[4]["label"] != "" {
		t.Errorf("read %v", rows)
	}
	if text, _ := figureOf(Series{Name: "s", Style: Line, X: []float64{1}, Y: []float64{1}}).csv(); strings.Contains(string(text), "label") {
		t.Errorf("a label in\n%s", text)
	}
	model, err := crowded().Series[0].MarshalJSON()
	if err != nil || !strings.Contains(string(model), `"labels":["first of a"`) {
		t.Errorf("%s, %v", model, err)
	}
}

// A figure by itself is well-formed, has its own colours and a legend, and is high enough
// for both.
func TestStandaloneFigure(t *testing.T) {
	f := crowded()
	f.Series[1].Name = "b <&> a " + strings.Repeat("long ", 20) + "name"
	svg, err := f.Standalone()
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	var heights []float64
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.CharData:
			texts = append(texts, string(token))
		case xml.StartElement:
			for _, a := range token.Attr {
				if h, err := strconv.ParseFloat(a.Value, 64); err == nil && token.Name.Local == "svg" && a.Name.Local == "height" {
					heights = append(heights, h)
				}
			}
		}
	}
	all := strings.Join(texts, "\n")
	for _, want := range []string{f.Series[1].Name, "second of a", "prefers-color-scheme:dark", "--hue1:#00549e", f.Title} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q", want)
		}
	}
	if lines := 2 * (sampleHeight + 8.0); len(heights) == 0 || heights[0] < fullHeight+lines {
		t.Errorf("heights %v, want the first above %v and the drawing's", heights, lines)
	}
	if _, err := figureOf().Standalone(); err == nil || !strings.Contains(err.Error(), "no series") {
		t.Errorf("a figure of nothing: %v", err)
	}
}
