package evaluation_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"gearshift/env/evaluation"
	"gearshift/router/fleet"
)

// ladder chooses the large variant while fewer than so many are in flight.
type ladder int

func (ladder) Scratch() int { return 0 }
func (l ladder) Decide(v *fleet.View, _ *fleet.Request, _ []float32) int {
	if v.VariantInFlight(0)+v.VariantInFlight(1) < int(l) {
		return 1
	}
	return 0
}

// tuning searches over the ladder's limit, on the workloads of [plan].
func tuning(t *testing.T) evaluation.Tuning {
	p := plan(t)
	return evaluation.Tuning{
		Families: []evaluation.Family{{
			Name: "ladder", Axes: []evaluation.Axis{{Name: "limit", Grid: []float64{1, 4, 16, 64}}},
			Make: func(values []float64) (string, evaluation.Decider, error) {
				limit := int(math.Round(values[0]))
				return fmt.Sprintf("ladder:%d", limit), ladder(limit), nil
			},
		}},
		Fleet: p.Contestants[0].Fleet, Workloads: p.Workloads, Seeds: p.Seeds, Trials: 20,
	}
}

// The score of a trial is what an evaluation of its policy says, and the best
// beats its neighbours.
func TestTuningFindsTheBest(t *testing.T) {
	tune := tuning(t)
	trials, err := tune.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	report := tune.Report(trials, "training seeds")
	best := report.Best[0]
	if len(report.Best) != 1 || best.Trials != len(trials) || len(trials) < 5 || len(trials) > 20 {
		t.Fatalf("%d trials, best %+v", len(trials), report.Best)
	}
	for i, trial := range trials {
		if coarse := i < 4; coarse != (trial.Stage == evaluation.Coarse) || !coarse && trial.Stage != evaluation.Refined {
			t.Errorf("trial %d is %s", i, trial.Stage)
		}
		if trial.Score > best.Score {
			t.Errorf("%s scores more than the best, %s", trial.Policy, best.Policy)
		}
		for j := range trials[:i] {
			if trials[j].Policy == trial.Policy {
				t.Errorf("%s is played twice", trial.Policy)
			}
		}
	}
	p := plan(t)
	p.Contestants = []evaluation.Contestant{{Name: best.Policy, Decider: ladder(int(math.Round(best.Values[0]))), Fleet: tune.Fleet}}
	results, err := p.Evaluate(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	both := results[len(results)-1] // the group of both workloads
	if both.Workload != "both" || math.Abs(both.Utility.Mean-best.Score) > 1e-12 || best.Utility["both"] != best.Score {
		t.Errorf("%s scores %v (%v), evaluation says %+v", best.Policy, best.Score, best.Utility, both.Utility)
	}
}

// Aimed at windows, a trial's score is the mean share of the windows at the levels,
// by what an evaluation of its policy counts.
func TestTuningNearPeak(t *testing.T) {
	tune := tuning(t)
	tune.Objective, tune.Trials = evaluation.NearPeak, 4
	trials, err := tune.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	trial := trials[2]
	p := plan(t)
	p.Contestants = []evaluation.Contestant{{Name: trial.Policy, Decider: ladder(int(math.Round(trial.Values[0]))), Fleet: tune.Fleet}}
	results, err := p.Evaluate(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var want float64
	levels := evaluation.WindowLevels[1:]        // but that of 1.00
	for _, r := range results[:len(results)-1] { // but the group
		windows := float64(r.Requests/len(p.Seeds) - evaluation.WindowSize + 1)
		for _, level := range levels {
			want += r.Windows[evaluation.LevelName(level)] / windows / float64(len(levels)*(len(results)-1))
		}
	}
	if math.Abs(trial.Score-want) > 1e-9 || want == 0 {
		t.Errorf("%s scores %v, want %v", trial.Policy, trial.Score, want)
	}
	if trial.Utility["both"] == trial.Score {
		t.Error("its utility is taken for its windows")
	}
}

// Runs without requests count as none in a search, too, for either aim.
func TestTuningWithoutRequests(t *testing.T) {
	for _, aim := range []evaluation.Objective{evaluation.MeanUtility, evaluation.NearPeak} {
		tune := tuning(t)
		tune.Objective, tune.Trials, tune.Workloads = aim, 4, tune.Workloads[:1]
		tune.Workloads[0].Open = silence(tune.Workloads[0].Open, 1, 3)
		some, err := tune.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		tune.Seeds = []uint64{1, 3}
		if full, err := tune.Run(context.Background()); err != nil || !reflect.DeepEqual(some, full) {
			t.Errorf("%v: with a run without requests %+v\nwithout it %+v", err, some, full)
		}
		tune.Workloads[0].Open = silence(nil)
		if _, err := tune.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "on slow: no request comes in any of its runs") {
			t.Errorf("no requests at all: %v", err)
		}
	}
}

func TestTuningRepeats(t *testing.T) {
	run := func(cores int) []evaluation.Trial {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
		tune := tuning(t)
		trials, err := tune.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return trials
	}
	if one, two := run(1), run(2); !reflect.DeepEqual(one, two) {
		t.Errorf("on one core %+v\non two %+v", one, two)
	}
}

func TestTuningErrors(t *testing.T) {
	none := tuning(t)
	none.Families[0].Make = func([]float64) (string, evaluation.Decider, error) {
		return "", nil, errors.New("never")
	}
	if _, err := none.Run(context.Background()); err == nil || err.Error() != "cannot tune ladder: no values of its grid make a policy" {
		t.Errorf("a family without policies: %v", err)
	}
	seedless := tuning(t)
	seedless.Seeds = nil
	if _, err := seedless.Run(context.Background()); err == nil {
		t.Error("a search without seeds succeeds")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	cancelled := tuning(t)
	if _, err := cancelled.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled search: %v", err)
	}
}

func TestTuningReportFormats(t *testing.T) {
	tune := tuning(t)
	trials, err := tune.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	report := tune.Report(trials, "training seeds")
	write := func(format string) string {
		t.Helper()
		var b strings.Builder
		if err := report.Write(&b, format); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if table := write("table"); !strings.HasPrefix(table, "Tuned on 3 training seeds of both:\n") || strings.Count(table, "\n") != 3 {
		t.Errorf("table:\n%s", table)
	}
	rows, err := csv.NewReader(strings.NewReader(write("csv"))).ReadAll()
	if err != nil || len(rows) != 1+len(trials) || strings.Join(rows[0], ",") != "family,trial,stage,policy,score,utility_both" {
		t.Errorf("CSV: %v, %v", rows, err)
	}
	var back evaluation.TuningReport
	if err := json.Unmarshal([]byte(write("json")), &back); err != nil || !reflect.DeepEqual(&back, report) {
		t.Errorf("JSON: %+v, %v", back, err)
	}
	if brief := report.Brief(); brief.Trials != nil || len(brief.Best) != 1 || report.Trials == nil {
		t.Errorf("the brief report: %+v", brief)
	}
	if report.Write(&strings.Builder{}, "xml") == nil {
		t.Error("format xml is written")
	}
}
