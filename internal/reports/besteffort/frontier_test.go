package besteffort

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/internal/training/policies"
)

// madeUp is a frontier whose policy keeps more windows near the peak for less utility, and
// whose large size is far below both lines.
func madeUp() *Frontier {
	played := func(name string, utility, near float64) Performance {
		i := func(v float64) evaluation.Interval { return evaluation.Interval{Mean: v, Lo: v - 0.01, Hi: v + 0.01} }
		on := OnWorkload{Utility: i(utility), Windows: map[string]float64{"0.99": 0, "0.98": 1000 * near, "0.96": 2000 * near, "0.94": 3000 * near}}
		return Performance{Policy: name, Utility: i(utility), NearPeak: i(near), Value: i(utility), On: map[string]OnWorkload{"u1": on, "u2": on}}
	}
	point := func(by string, policy, rule Performance, margin float64) Point {
		m := evaluation.Interval{Mean: margin, Lo: margin - 0.001, Hi: margin + 0.001}
		return Point{Objective: mustParse(by), Policy: policy, Rule: rule, Verdict: evaluation.Verdict{
			Policy: policy.Policy, Rule: rule.Policy, Objective: mustParse(by), Margin: m, Seeds: 4,
		}}
	}
	return &Frontier{
		Scenario: "made-up", Preset: "quick", Seeds: 4, Repeat: "gearshift paper", Large: played("static:large", 0.3, 0.2),
		Points: []Point{
			point("utility", played("hard@1", 0.9, 0.1), played("threshold:8", 0.9, 0.1), 0),
			point("near-peak", played("for-near-peak@1", 0.85, 0.4), played("budget:1", 0.86, 0.3), 0.02),
			point("power:3", played("for-power-3@1", 0.88, 0.2), played("threshold:8", 0.9, 0.1), -0.01),
		},
	}
}

// A line goes from the least time near the peak to the most, and a rule that is the best
// for two objectives is one point of it.
func TestAFrontierIsDrawnInOrder(t *testing.T) {
	f := madeUp().figure()
	if want := []string{"utility", "power:3", "near-peak"}; !slices.Equal(f.Series[0].Labels, want) || !slices.IsSorted(f.Series[0].X) {
		t.Errorf("policies %v at %v, want %v", f.Series[0].Labels, f.Series[0].X, want)
	}
	if want := []string{"utility; power:3", "near-peak"}; !slices.Equal(f.Series[1].Labels, want) {
		t.Errorf("rules %v, want %v", f.Series[1].Labels, want)
	}
	if got := f.Series[0].Y; !slices.Equal(got, []float64{0.9, 0.88, 0.85}) {
		t.Errorf("utilities %v", got)
	}
}

// The largest size alone earns too little to share an axis with the lines: it stands on the
// edge and says what it earns. Where it is near them, nothing is cut off.
func TestTheLargestSizeOnAFrontier(t *testing.T) {
	f := madeUp()
	figure := f.figure()
	if y := figure.Y.Range; y == nil || y.Min < 0.8 || y.Max < 0.9 {
		t.Errorf("the axis is %+v", y)
	}
	if large := figure.Series[2]; large.Labels[0] != "large alone: 0.300" || large.Y[0] != 0.3 {
		t.Errorf("the largest size is %+v", large)
	}
	f.Large.Utility.Mean = 0.84
	figure = f.figure()
	if large := figure.Series[2]; figure.Y.Range != nil || large.Labels[0] != "large alone" {
		t.Errorf("the axis is %+v, the largest size %+v", figure.Y.Range, large)
	}
}

// Windows are multiples of the largest size's; where it has none at a level, there is no
// multiple.
func TestWindowsOfAFrontier(t *testing.T) {
	table := madeUp().windowTable()
	if want := 7; len(table.Rows) != want { // three points, each a policy and a rule, and the largest size
		t.Fatalf("%d rows, want %d", len(table.Rows), want)
	}
	column := slices.IndexFunc(table.Columns, func(c report.Column) bool { return c.Key == "u2_0.98" })
	if got, want := table.Rows[2][column], report.Number(400./200); !reflect.DeepEqual(got, want) {
		t.Errorf("%v times the largest size's windows, want %v", got, want)
	}
	r := report.Report{
		Title: "t", Scenario: "s", Repeat: "r", Verdict: madeUp().verdict(), Sections: []report.Section{madeUp().section()},
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
}

// What is said first names the objectives by the word of their margin.
func TestTheVerdictOfAFrontier(t *testing.T) {
	said := strings.Join(madeUp().verdict(), " ")
	for _, want := range []string{
		"better for near-peak, level for utility, worse for power:3.",
		"From hard@1 to for-near-peak@1", "from 10.0 % to 40.0 %", "from a utility of 0.9000 to 0.8500", "static:large alone has 20.0 %",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in %q", want, said)
		}
	}
	if table := madeUp().markdown(); !strings.Contains(table, "| `power:3` | 0.8800, 20.0 % | `threshold:8` | 0.9000, 10.0 % | -0.0100 (-0.0110 to -0.0090) | worse |") {
		t.Error(table)
	}
}

// A frontier that was played is drawn again from its file as it was.
func TestAFrontierIsKeptInAFile(t *testing.T) {
	dir := t.TempDir()
	files, err := madeUp().files()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	again := filepath.Join(t.TempDir(), "again")
	var stdout strings.Builder
	err = redrawn(t, filepath.Join(dir, frontierFile), again, &stdout)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{frontierFile, frontierPicture} {
		a, errA := os.ReadFile(filepath.Join(dir, name))
		b, errB := os.ReadFile(filepath.Join(again, name))
		if errA != nil || errB != nil || string(a) != string(b) {
			t.Errorf("%s is another one: %v, %v", name, errA, errB)
		}
	}
	if !strings.Contains(stdout.String(), "| `near-peak` | 0.8500, 40.0 %") {
		t.Error(stdout.String())
	}
	if _, err := os.Stat(filepath.Join(again, "csv", "frontier-points.csv")); err != nil {
		t.Error(err)
	}
	if _, err := readFrontier(filepath.Join(again, "report.json")); err == nil || !strings.Contains(err.Error(), "gearshift-frontier/1") {
		t.Errorf("a report is read as a frontier: %v", err)
	}
}

// Every objective has a policy trained for it, from a scenario that aims at it, and a
// search of its own; all are played on the same runs.
func TestAFrontierIsTraced(t *testing.T) {
	s := load(t, "tiny")
	s.Evaluation.Requests, s.Evaluation.StableRates, s.Evaluation.PhaseS = 120, []float64{2, 6}, 10
	aims := map[string]evaluation.Objective{}
	p := &paper{
		options: options{Scenario: "tiny", Preset: "quick"}, scenario: s, seeds: []uint64{1, 2}, store: &checkpoints.Store{},
		Run: &reports.Run{Quick: true, Stderr: t.Output(), Program: reports.Program{
			// A rule stands in for what would be trained.
			Train: func(_ context.Context, o reports.Training) (string, error) {
				aims[o.Name] = o.On.Training.Objective
				return "slackfit", nil
			},
		}},
	}
	f := p.trace(t.Context())
	for i, text := range frontierObjectives {
		o := mustParse(text)
		name := nameFor(o)
		if o.IsZero() {
			name = "hard"
		}
		if aim, trained := aims[name]; !trained || aim != o {
			t.Errorf("%s is trained for %v (%v)", name, aim, trained)
		}
		if _, searched := p.bestFor[o]; !searched {
			t.Errorf("no rule was searched for %s", text)
		}
		point := f.Points[i]
		if point.Objective != o || !strings.HasPrefix(point.Policy.Policy, "slackfit") {
			t.Errorf("point %d is %+v", i, point)
		}
		if got, want := point.Verdict.Margin.Mean, point.Policy.Value.Mean-point.Rule.Value.Mean; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: a margin of %v between values that differ by %v", text, got, want)
		}
	}
	if n := len(f.Large.On["u1"].Windows); n == 0 || f.Large.Policy != "static:large" {
		t.Errorf("the largest size: %+v", f.Large)
	}
	if s.Training.Objective != evaluation.MeanUtility {
		t.Error("the scenario was changed")
	}
}

// The value of a performance by windows of 98 % is its time near the peak: both are of the
// same runs.
func TestPerformancesAreOfTheirRuns(t *testing.T) {
	near := mustParse("windows:0.98,20")
	var results []evaluation.Result
	for i, name := range policies.JudgedBy {
		v := float64(i+1) / 10
		results = append(results, evaluation.Result{
			Policy: "a", Workload: name, Utility: evaluation.Interval{Mean: v}, Runs: []float64{v, v},
			Windows:    map[string]float64{"0.98": 10 * v},
			Objectives: []evaluation.Valued{{Objective: near, Runs: []float64{v / 2, v / 2}}},
		})
	}
	s := performance(results, "a", near)
	if math.Abs(s.Utility.Mean-0.2) > 1e-12 || math.Abs(s.NearPeak.Mean-0.1) > 1e-12 || s.Value != s.NearPeak {
		t.Errorf("%+v, want means over the three workloads", s)
	}
	if s.On["u2"].Windows["0.98"] != 2 || len(s.On) != 2 {
		t.Errorf("on workloads %+v", s.On)
	}
}

// Policies are given for points of the frontier alone.
func TestGivenPolicies(t *testing.T) {
	for text, want := range map[string]string{
		"near-peak":         "such as near-peak=mine",
		"near-peak=":        "such as near-peak=mine",
		"=mine":             "such as near-peak=mine",
		"mine":              "such as near-peak=mine",
		"power:4=mine":      "the frontier has no point power:4",
		"fame=mine":         `unknown objective "fame"`,
		"windows:2,20=mine": "want above 0 and at most 1",
	} {
		o := options{Trained: []string{text}}
		if err := o.defaults(false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--trained %s: %v, want %q", text, err, want)
		}
	}
	o := options{Scenario: "tiny", Trained: []string{"near-peak=mine", "windows:0.98,20=other@2"}, Store: "s.db"}
	if err := o.defaults(false); err != nil || o.trained[evaluation.NearPeak] != "mine" || o.trained[nearPeak] != "other@2" {
		t.Errorf("%v, %v", o.trained, err)
	}
}
