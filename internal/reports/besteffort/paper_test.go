package besteffort

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
)

func load(t *testing.T, name string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func titan(t *testing.T) *scenario.Scenario {
	t.Helper()
	return load(t, "titan-rtx-opt")
}

// The tables compare sizes: one alone is refused before anything is trained.
func TestPaperNeedsTwoVariants(t *testing.T) {
	s := titan(t)
	if err := suitable(s, "default"); err != nil {
		t.Error(err)
	}
	s.Variants = s.Variants[:1]
	if err := suitable(s, "default"); err == nil || !strings.Contains(err.Error(), "titan-rtx-opt has one variant") {
		t.Error(err)
	}
}

// The paper's other scenarios (LBE-25, 29, 30) differ from the first in what they say, and
// leave it as it was.
func TestPaperScenarios(t *testing.T) {
	s := titan(t)
	hash := s.Hash()
	for _, task := range softened(s).Tasks {
		if task.Decay != scenario.Soft {
			t.Errorf("%s is %s", task.Name, task.Decay)
		}
	}
	other := otherDeadlines(s, paperDeadlines).Tasks
	for i, want := range []float64{40, 32, 40, 80} { // LBE-5
		if other[i].DeadlineMS != want {
			t.Errorf("%s has %v ms, want %v", other[i].Name, other[i].DeadlineMS, want)
		}
	}
	twice, err := policies.Contestants(doubled(s), nil, []string{"static:opt-6.7b", "threshold"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := len(twice[0].Fleet.Table.Replicas), len(twice[1].Fleet.Table.Replicas); a != 8 || b != 24 {
		t.Errorf("on twice the hosts there are %d and %d replicas, want 8 and 24", a, b)
	}
	p := &paper{scenario: s, seeds: []uint64{1}, Run: &reports.Run{Stderr: t.Output()}}
	runs := p.sample(t.Context(), only(s, "copa"), "static:opt-125m", "stable:4", 1)
	if slices.ContainsFunc(runs[0], func(x evaluation.Sample) bool { return x.Task != 1 }) {
		t.Error("with COPA alone another task arrives")
	}
	if s.Hash() != hash {
		t.Error("the scenario was changed")
	}
}

// With the preset paper the further policies are trained as long as the paper's
// (LBE-15); with others the soft one, which is not new, for a quarter.
func TestPaperTrainsAsLong(t *testing.T) {
	for preset, want := range map[string][2]int{"paper": {685_000, 800_000}, "default": {100_000, 400_000}} {
		s := titan(t)
		soft, deadlines := lengths(preset)
		got := [2]int{soft.of(s, preset).Training.Presets[preset].Decisions, deadlines.of(s, preset).Training.Presets[preset].Decisions}
		if got != want {
			t.Errorf("preset %s: soft and other deadlines %v decisions, want %v", preset, got, want)
		}
	}
}

// The share of a variant that falls from all to none between two rates has the
// area of a trapezium: what Table 2 compares (LBE-25).
func TestUsageIsTheAreaUnderTheShare(t *testing.T) {
	s := titan(t)
	s.Evaluation.StableRates = []float64{1, 2, 4}
	w := &sweep{scenario: s, share: [][][]float64{{{1}}, {{1}}, {{0}}}}
	if got := w.usage(0, 0); math.Abs(got-2) > 1e-12 {
		t.Errorf("%v, want 1 + 2/2", got)
	}
}

// Figures 3 and 14 are tables too, which can be written.
func TestFiguresInNumbers(t *testing.T) {
	s := titan(t)
	s.Evaluation.StableRates = []float64{1, 3}
	w := &sweep{scenario: s}
	for range s.Evaluation.StableRates {
		w.share = append(w.share, [][]float64{{0, 0, 1}, {0, 1, 0}, {0.5, 0.5, 0}, {1, 0, 0}})
	}
	use := w.uses()
	if got, want := use.Rows[2], []report.Cell{report.Text("piqa"), report.Number(1), report.Number(1), report.Number(0)}; !reflect.DeepEqual(got, want) {
		t.Errorf("use by piqa %v, want %v", got, want)
	}
	s.Evaluation.Requests = 50
	p := &paper{scenario: s, soft: "threshold", seeds: []uint64{1, 2}, cache: map[string]rows{}, Run: &reports.Run{Stderr: t.Output()}}
	two := p.twoTasks(t.Context(), only(softened(s), "hellaswag", "copa"))
	if len(two.Rows) != 1+len(s.Variants) {
		t.Fatalf("%d rows", len(two.Rows))
	}
	r := report.Report{
		Title: "t", Scenario: "s", Repeat: "r", Verdict: []string{"a", "b", "c"},
		Sections: []report.Section{{ID: "s", Title: "s", Text: "s", Tables: []report.Table{use, two}}},
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
}

func TestRunningAndWindowedMeans(t *testing.T) {
	var samples []evaluation.Sample
	for i := range 30 {
		samples = append(samples, evaluation.Sample{Utility: float64(i % 2), Peak: 2})
	}
	x, y := windowed(samples, relative)
	if len(x) != 11 || x[0] != 20 || math.Abs(y[10]-0.25) > 1e-12 {
		t.Errorf("windows at %v are %v: want 11 from request 20 on, each 0.25", x, y)
	}
	if _, y := running(samples[:3]); math.Abs(y[2]-1./3) > 1e-12 {
		t.Errorf("running means %v", y)
	}
}

// A static size that reaches a level in no window at all leaves a report that can be
// written: ratios to it are missing.
func TestRatiosToNothingAreMissing(t *testing.T) {
	s := titan(t)
	p := &paper{scenario: s, hard: "hard@1", windows: "slackfit", rules: []string{"threshold"}, cache: map[string]rows{}, Run: &reports.Run{Stderr: t.Output()}}
	for _, ref := range append(statics(s), p.hard, p.windows, p.rules[0]) {
		r := evaluation.Result{Windows: map[string]float64{}}
		if ref == p.hard || ref == p.windows {
			r.Windows["0.96"] = 7
		}
		p.cache["hard "+ref+" u1"] = rows{{ref, "u1"}: r}
	}
	table := p.windowTable(t.Context(), "table3", "u1")
	r := report.Report{
		Title: "t", Scenario: "s", Repeat: "r", Verdict: []string{"a", "b", "c"},
		Sections: []report.Section{{ID: "s", Title: "s", Text: "s", Tables: []report.Table{table}}},
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	if quotient(3, 2) != 1.5 {
		t.Errorf("3 / 2 is %v", quotient(3, 2))
	}
}

// A sweep is played once for all of its rates, and has a row for each: the one that
// its rate has alone.
func TestASweepIsPlayedOnce(t *testing.T) {
	s := load(t, "tiny")
	s.Evaluation.StableRates = []float64{2, 6.25}
	p := &paper{scenario: s, seeds: []uint64{1, 2}, cache: map[string]rows{}, Run: &reports.Run{Stderr: t.Output()}}
	w := p.sweep(t.Context(), "tiny", s, "threshold")
	if want := 1 + len(s.Variants); len(p.cache) != want {
		t.Errorf("%d results are kept, want one for each of %d policies", len(p.cache), want)
	}
	alone := p.play(t.Context(), s, "threshold", "stable:6.25")
	if of := [2]string{"threshold", "stable:6.25"}; w.all[of].Requests == 0 || !reflect.DeepEqual(w.all[of], alone[of]) {
		t.Errorf("in the sweep %+v, alone %+v", w.all[of], alone[of])
	}
}

// An error of a section ends the report and is returned; another panic goes on.
func TestAnErrorEndsAReport(t *testing.T) {
	broken := errors.New("no store")
	end := func(step func()) (err error) {
		defer ended(&err)
		step()
		return nil
	}
	if err := end(func() { must(1, broken) }); err != broken {
		t.Errorf("a failed step ends with %v", err)
	}
	if err := end(func() { must(1, nil) }); err != nil {
		t.Errorf("a good step ends with %v", err)
	}
	defer func() {
		if r := recover(); r != "another" {
			t.Errorf("another panic became %v", r)
		}
	}()
	_ = end(func() { panic("another") })
}

// Trainings that were evaluated on the same seeds make an interval over the seeds no
// narrower by being many.
func TestIntervalsAcrossTrainings(t *testing.T) {
	one, other := []float64{0.2, 0.4, 0.9}, []float64{0.4, 0.6, 1.1}
	want := evaluation.Bootstrap(one)
	if got := evaluation.Bootstrap(acrossTrainings([][]float64{one, one, one})); math.Abs(got.Lo-want.Lo) > 1e-12 || math.Abs(got.Hi-want.Hi) > 1e-12 {
		t.Errorf("of the same training three times %+v, of one %+v", got, want)
	}
	for i, got := range acrossTrainings([][]float64{one, other}) {
		if math.Abs(got-one[i]-0.1) > 1e-12 {
			t.Errorf("seed %d: %v, want the mean of %v and %v", i, got, one[i], other[i])
		}
	}
}

// A fleet that no built-in scenario borrows its presets from has a section on others,
// which says so.
func TestOtherFleetsOfAScenarioThatLendsNoPresets(t *testing.T) {
	s := titan(t)
	s.Name = "mine"
	p := &paper{scenario: s, cache: map[string]rows{}, Run: &reports.Run{Stderr: t.Output()}}
	out := reports.Part{Section: report.Section{ID: "others", Title: "Others"}}
	p.othersSection(t.Context(), &out)
	r := report.Report{Title: "t", Scenario: "s", Repeat: "r", Verdict: []string{"a", "b", "c"}, Sections: []report.Section{out.Section}}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
}

// What cannot be played on a fleet is left out of its report, which says why.
func TestReportsLeaveOutWhatCannotBePlayed(t *testing.T) {
	names := []string{"u1+gpu:x1.25", "u1+outputs:x100", "u1+lost:gpu0@300-1200"}
	one := titan(t)
	one.Hosts = one.Hosts[:1]
	for i := range one.Replicas {
		one.Replicas[i].Hosts = one.Replicas[i].Hosts[:1]
	}
	for _, c := range []struct {
		fleet *scenario.Scenario
		want  []string
		why   []string
	}{
		{titan(t), []string{names[0], names[2]}, []string{"no u1+outputs:x100: "}},
		{one, names[:1], []string{"no u1+outputs:x100: ", "no u1+lost:gpu0@300-1200: ", "no replica is left."}},
	} {
		p := &paper{scenario: c.fleet, rules: []string{"threshold"}}
		got, refused := p.playable(names)
		if !slices.Equal(got, c.want) {
			t.Errorf("on %d hosts %v are played, want %v", len(c.fleet.Hosts), got, c.want)
		}
		for _, why := range c.why {
			if !strings.Contains(refused, why) {
				t.Errorf("on %d hosts no %q in %q", len(c.fleet.Hosts), why, refused)
			}
		}
	}
}

// Windows are counted per run, and a scenario says how long its runs are.
func TestReportsSayHowLongTheirRunsAre(t *testing.T) {
	if text := unstableText(2000); !strings.Contains(text, "per run of 2000 requests") {
		t.Error(text)
	}
}
