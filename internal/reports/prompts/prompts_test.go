package prompts

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/workloads/prompts"
)

// short is a study of made-up prompts of two models: the small one answers sums, and the large one
// prose; each is right one time of five elsewhere. There are two groups of each, with words of their own.
func short(n int) *study {
	random := rand.New(rand.NewPCG(3, 4))
	all := &prompts.Set{Name: "made-up", Columns: []string{"small", "large"}}
	for i := range n {
		group, topic := i%4, i%2
		text := ""
		for range 8 {
			text += fmt.Sprintf("%s%dx%d ", []string{"sums", "verb"}[topic], group, random.IntN(60))
		}
		scores := []float32{float32(b(random.IntN(5) == 0)), float32(b(random.IntN(5) == 0))}
		scores[topic] = 1
		all.Prompts = append(all.Prompts, prompts.Prompt{Text: text, Group: fmt.Sprint("g", group), Scores: scores})
	}
	x := newSet(all)
	x.pairs = []pair{{0, 1}, {0, 1}, {0, 1}}
	return &study{Run: &reports.Run{Seeds: 2, Quick: true}, sets: []*set{x}}
}

func b(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// make makes a section.
func (s *study) make(t *testing.T, id string) *reports.Part {
	t.Helper()
	p := &reports.Part{Report: &report.Report{}}
	for _, x := range s.study().Sections {
		if x.ID == id {
			if err := x.Make(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(p.Tables) == 0 {
		t.Fatalf("section %s has no table", id)
	}
	return p
}

// Who knows what a prompt needs gains nearly what the oracle does, and random nothing.
func TestGainOfWhoKnows(t *testing.T) {
	s := short(300)
	p := s.make(t, "gain")
	for _, by := range []string{"predicted", "nearest", "matrix", "group", "all three"} {
		if !strings.Contains(fmt.Sprint(p.Tables[0].Rows), by) {
			t.Errorf("no row %q", by)
		}
	}
	x := s.sets[0]
	held, err := s.held(t.Context(), x, []method{predicted, byGroup})
	if err != nil {
		t.Fatal(err)
	}
	truth := x.truth(x.pairs[0])
	oracle := rank(truth, truth).gain(once(len(truth)))
	for k, h := range held {
		if g := rank(truth, x.pairs[0].expected(h)).gain(once(len(truth))); g < 0.7*oracle || g > oracle {
			t.Errorf("method %d gains %.3f of %.3f", k, g, oracle)
		}
	}
	if again := s.make(t, "gain"); !reflect.DeepEqual(p.Tables, again.Tables) {
		t.Error("the same prompts give other figures")
	}
}

// A gain is by the order alone: half of the traffic at the right prompts is a quarter in the mean
// over shares, the reverse loses as much, ties are random, and counts stand for copies.
func TestGainByOrder(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		gains, expected []float64
		counts          []uint16
		want            float64
	}{
		{[]float64{1, 0}, []float64{2, 1}, []uint16{1, 1}, 0.125},
		{[]float64{1, 0}, []float64{1, 2}, []uint16{1, 1}, -0.125},
		{[]float64{1, 0}, []float64{1, 1}, []uint16{1, 1}, 0},
		{[]float64{1, -1, nan}, []float64{2, 1, 3}, []uint16{1, 1, 1}, 0.25},
		{[]float64{1, 0, 0}, []float64{3, 2, 1}, []uint16{2, 2, 0}, 0.125},
	} {
		if got := rank(c.gains, c.expected).gain(c.counts); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v: %v, want %v", c, got, c.want)
		}
	}
}

// More labels gain more, and predictions without a label of their group are less sure.
func TestLabelsAndGroups(t *testing.T) {
	s := short(700)
	p := s.make(t, "labels")
	if n := len(p.Tables[0].Rows); n != 2 {
		t.Errorf("%d sizes of 700 prompts, want 30 and 300", n)
	}
	x := s.sets[0].only(pair{0, 1})
	few, err := x.draw(30, 1)
	if err != nil {
		t.Fatal(err)
	}
	many, err := x.draw(500, 1)
	if err != nil {
		t.Fatal(err)
	}
	if many.gains[0] <= few.gains[0] || many.off >= few.off {
		t.Errorf("with 500 labels %+v, with 30 %+v", many, few)
	}
	s.make(t, "elsewhere")
	groups := x.groups()
	other, err := x.split(groups, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	same, err := x.split(groups, 0, true)
	if err != nil {
		t.Fatal(err)
	}
	if other.sure > 0.2 || same.sure < 0.8 || math.Abs(other.pairs[0].shrunk.Mean) > 0.05 || same.pairs[0].shrunk.Mean < 0.1 {
		t.Errorf("elsewhere %+v, in domain %+v", other, same)
	}
}

// Parts whose scores are for certain below the lower bounds are counted, and so is how far predictions
// are off, with what chance has of it.
func TestCalibration(t *testing.T) {
	n := 2000
	scores, predicted, low := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range scores {
		scores[i], predicted[i], low[i] = float64(i%2), float64(i)/float64(n), float64(i)/float64(n)-0.1
	}
	// Of each part of 200 the mean score varies by sqrt(0.25/200), .035.
	c := calibrated(scores, predicted, low)
	if math.Abs(c.kept-0.7) > 1e-9 || math.Abs(c.below-0.1) > 1e-9 || math.Abs(c.off-0.25) > 0.01 || math.Abs(c.chance-0.8*0.0354) > 0.001 {
		t.Errorf("%+v", c)
	}
}
