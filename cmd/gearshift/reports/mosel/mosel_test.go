package mosel

import (
	"math"
	"reflect"
	"testing"
	"time"

	"gearshift/cmd/gearshift/reports"
)

// TestProfiles: the numbers that the paper gives are those of the profiles.
func TestProfiles(t *testing.T) {
	for i, want := range []struct {
		combinations int
		all, fastest float64 // ms
	}{{3, 33.3, 3.0}, {3, 100, 21.9}, {7, 50, 7.77}, {7, 20, 8.60}, {3, 50, 5.60}} {
		list := models[i].options(1)
		first, last := list[0], list[len(list)-1]
		if len(list) != want.combinations || math.Abs(last.Latency[0]-want.all) > 0.05 || math.Abs(first.Latency[0]-want.fastest) > 0.05 || last.Quality != 0.8 {
			t.Errorf("%s: %d combinations, from %.2f to %.2f ms", models[i].name, len(list), first.Latency[0], last.Latency[0])
		}
		for _, o := range list[:len(list)-1] {
			if o.Quality >= last.Quality || o.Latency[0] >= last.Latency[0] {
				t.Errorf("%s: %s is as good or as slow as all inputs", models[i].name, o.Name)
			}
		}
	}
}

// TestReport: a short report is whole, and the same twice.
func TestReport(t *testing.T) {
	made := func() any {
		p := &paper{seeds: 2, day: 20 * time.Second, program: reports.Program{Version: "test"}, repeat: "gearshift paper mosel", decisions: 1000, validation: 8}
		if err := p.train(t.Context()); err != nil {
			t.Fatal(err)
		}
		r, err := p.report(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		if p.played != p.plays {
			t.Errorf("%d policies played, announced %d", p.played, p.plays)
		}
		return r
	}
	if !reflect.DeepEqual(made(), made()) {
		t.Error("two reports differ")
	}
}
