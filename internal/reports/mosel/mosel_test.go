package mosel

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/router/modality"
)

// TestProfiles: the numbers that the paper gives are those of the profiles.
func TestProfiles(t *testing.T) {
	for i, want := range []struct {
		combinations int
		all, fastest float64 // ms
	}{{3, 33.3, 3.0}, {3, 100, 21.9}, {7, 50, 7.77}, {7, 20, 15.71}, {3, 50, 5.60}} {
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

// TestProfilesFollowFromThePaper: all inputs take one over the capacity. Of the time for the
// inputs the first takes 1/11 times 5.3 over the paper's gain, as it has of TVLT, at most a
// quarter; of the rest the second of three takes 40 %. Where a gain cannot come of that, any
// combination takes so long that it can. A batch takes as long as its requests one by one.
func TestProfilesFollowFromThePaper(t *testing.T) {
	for _, m := range models {
		share := min(0.25, 5.3/11/m.gain)
		base := max(0, (2/m.gain-1-share)/(1-share)) / m.capacity * 1000
		all := 1000/m.capacity - base
		first := share * all
		costs := []float64{first, all - first}
		list := m.options(1)
		if len(list) == 7 {
			costs = []float64{first, 0.4 * (all - first), 0.6 * (all - first)}
		}
		for i, mask := range modality.Combinations(len(costs)) {
			each := base
			for j, c := range costs {
				each += c * float64(mask>>j&1)
			}
			if len(list[i].Latency) != largest {
				t.Errorf("%s, %s: batches of %d, want %d", m.name, list[i].Name, len(list[i].Latency), largest)
			}
			for n, ms := range list[i].Latency {
				if want := each * float64(n+1); math.Abs(ms/want-1) > 1e-5 {
					t.Errorf("%s, %s, batch %d: %.4f ms, want %.4f", m.name, list[i].Name, n+1, ms, want)
				}
			}
			if q := list[i].Quality; q < leastQuality || q > bestQuality {
				t.Errorf("%s, %s: quality %v", m.name, list[i].Name, q)
			}
		}
	}
}

// small is a study of short days.
func small(day time.Duration, only ...string) reports.Study {
	p := &paper{Run: &reports.Run{Seeds: 2, Only: only}, day: day, decisions: 1000, validation: 8, comparisons: 10, multiple: 8}
	return p.study()
}

// TestReport: a short report is whole, and the same twice.
func TestReport(t *testing.T) {
	made := func() *report.Report {
		s := small(10 * time.Second)
		r, err := s.Make(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r.Repeat = "again"
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		return r
	}
	if !reflect.DeepEqual(made(), made()) {
		t.Error("two reports differ")
	}
}

// TestOnlyTheLearnedPolicy: the section alone is that of the whole report.
func TestOnlyTheLearnedPolicy(t *testing.T) {
	s := small(5*time.Second, "learned")
	alone, err := s.Make(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s = small(5*time.Second, "violations", "learned")
	both, err := s.Make(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(alone.Sections) != 1 || !reflect.DeepEqual(alone.Sections[0], both.Sections[1]) || !slices.Equal(alone.Verdict, both.Verdict[1:]) {
		t.Errorf("%d sections, %q; after another %q", len(alone.Sections), alone.Verdict, both.Verdict)
	}
	if got := len(alone.Sections[0].Tables) * len(models); got != 45 {
		t.Errorf("%d settings, want 45", got)
	}
}

// TestVerdict counts what is beyond chance.
func TestVerdict(t *testing.T) {
	v := verdict{than: "optimized"}
	for where, i := range map[string]evaluation.Interval{"a": {Mean: 1, Lo: 0.5, Hi: 2}, "b": {Mean: 1, Lo: -1, Hi: 2}, "c": {Mean: -0.02, Lo: -0.03, Hi: -0.01}, "d": {}} {
		v.add(where, i)
	}
	if got, want := v.String(), "The learned policy is worth more than optimized, beyond chance, in 1 of 4 settings, and less in 1, by at most 0.02: c."; got != want {
		t.Errorf("%s", got)
	}
}

// TestGains: the mean cost of the fastest strategy over all floors is that of all inputs
// divided by the paper's gain.
func TestGains(t *testing.T) {
	for i := range models {
		m := &models[i]
		table, err := modality.NewTable(m.options(1), modality.Mixed, largest)
		if err != nil {
			t.Fatal(err)
		}
		const floors = 2000
		var sum float64
		for k := range floors {
			floor := leastQuality + (bestQuality-leastQuality)*(float64(k)+0.5)/floors
			at, ok := table.Front(largest).At(floor * largest)
			if !ok {
				t.Fatalf("%s: no strategy reaches %v", m.name, floor)
			}
			sum += table.Front(largest)[at].Cost / floors
		}
		// A job of 16 requests has a mix in sixteenths, which costs a little more.
		if gain := largest * 1000 / m.capacity / sum; math.Abs(gain/m.gain-1) > 0.08 {
			t.Errorf("%s: %.2f times the capacity, want about %.2f", m.name, gain, m.gain)
		}
	}
}
