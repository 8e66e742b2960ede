package league

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
)

// small returns a league that takes a moment: fleet 5 has two sizes.
func small(out string, seeds ...uint64) *League {
	return &League{
		Settings: Settings{
			Workloads: []string{"u1"}, Tuning: policies.Effort{Trials: 2, Seeds: 1, Requests: 60, Rates: 2},
			Runs: 2, Requests: 60, Rates: 2, Carried: "titan-rtx-opt", Policies: []string{"priced:1,0.05,0.25,0.6,0.25"},
		},
		Seeds: seeds, Out: out, Source: &policies.Source{}, Notice: func(string) {},
	}
}

// Fleets that policies may be trained on are never those of an evaluation.
func TestTrainingFleetsAreRefused(t *testing.T) {
	if err := small("", 1, FirstTraining-1).Check(); err != nil {
		t.Error(err)
	}
	for want, seeds := range map[string][]uint64{
		"trained on": {1, FirstTraining}, "twice": {2, 3, 2}, "no seeds": nil,
	} {
		l := small("", seeds...)
		if err := l.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("seeds %v: %v, want %q", seeds, err, want)
		}
		if _, err := l.Play(t.Context()); err == nil {
			t.Errorf("seeds %v are played", seeds)
		}
	}
}

// Every kind of entry competes; the best tuned rule is level with itself, and no tuned rule is above it
// except universal, which is compared with the others.
func TestAFleetHasAllEntries(t *testing.T) {
	r, err := small("", 5).Play(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f := r.Fleets[0]
	var kinds []string
	level := false
	for _, row := range f.Rows {
		if !slices.Contains(kinds, row.Kind) {
			kinds = append(kinds, row.Kind)
		}
		if row.Kind == Tuned && row.Difference.Mean > 0 && row.Name != "universal" {
			t.Errorf("%v is above the best tuned rule by %v", row.Entry, row.Difference)
		}
		if strings.HasPrefix(f.Best, "universal") {
			t.Errorf("the best tuned rule is %s", f.Best)
		}
		if row.Plays == f.Best {
			level = row.Difference == evaluation.Interval{} && row.Utility.Mean == f.Utility
		}
	}
	if want := []string{Policy, Chosen, Tuned, Plain, Carried, Fixed}; !slices.Equal(kinds, want) || !level || f.Sizes != 2 {
		t.Errorf("kinds %v, want %v; level %v; %+v", kinds, want, level, f)
	}
}

// A policy is trained on the fleet itself, with the advice of the rule that the search chose or with none, and
// competes.
func TestTraining(t *testing.T) {
	for _, bare := range []bool{false, true} {
		l := small(t.TempDir(), 5)
		l.Train = &Training{Preset: "quick", NoAdvice: bare, Seed: 7}
		var on *scenario.Scenario
		l.Trainer = func(_ context.Context, got Training, name string, s *scenario.Scenario, store string) (string, error) {
			on = s
			if got != *l.Train || !strings.HasPrefix(name, "drawn-5-quick") || store != filepath.Join(l.Out, storeName) {
				t.Errorf("asked for %+v, %s in %s", got, name, store)
			}
			return "threshold:2", nil // stands for a policy
		}
		r, err := l.Play(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		preset, err := on.Preset("quick")
		if err != nil {
			t.Fatal(err)
		}
		rows := r.Fleets[0].Rows
		i := slices.IndexFunc(rows, func(row Row) bool { return row.Kind == Trained })
		chosen := slices.IndexFunc(rows, func(row Row) bool { return row.Kind == Chosen })
		advice := on.Spec().Advice()
		if i < 0 || rows[i].Plays != "threshold:2" || bare != (advice == "") || bare != (preset.AdviceMargin == 0) || !bare && advice != rows[chosen].Plays {
			t.Errorf("no advice %v: it was advised by %q with margin %v; rows %+v", bare, advice, preset.AdviceMargin, rows)
		}
		fleet, err := Fleet(5)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(on.Table(), fleet.Table()) || !reflect.DeepEqual(on.Training.Load, fleet.Training.Load) {
			t.Error("it was trained on another fleet, or other loads")
		}
	}
	l := small("", 5)
	l.Train = &Training{Preset: "quick"}
	if _, err := l.Play(t.Context()); err == nil {
		t.Error("a policy is trained without a trainer")
	}
}

// An interrupted league goes on from what its folder has, if that is of the same settings.
func TestResultsAreKept(t *testing.T) {
	folder := t.TempDir()
	whole, err := small(folder, 5, 9).Play(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	again, err := small(folder, 5, 9).Play(stopped)
	if err != nil || !reflect.DeepEqual(again, whole) {
		t.Errorf("with both fleets kept: %v, %+v, want %+v", err, again, whole)
	}
	if part, err := small(folder, 5, 11).Play(stopped); !errors.Is(err, context.Canceled) || len(part.Fleets) != 1 {
		t.Errorf("with one of two kept, interrupted: %v, %d fleets", err, len(part.Fleets))
	}
	other := small(folder, 5)
	other.Requests = 61
	if _, err := other.Play(stopped); !errors.Is(err, context.Canceled) {
		t.Errorf("with the results of other settings: %v", err)
	}
	if err := os.WriteFile(other.path(5), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Play(t.Context()); err == nil || !strings.Contains(err.Error(), "results so far: "+other.path(5)+": ") {
		t.Errorf("with a damaged file: %v", err)
	}
}

// Summaries count fleets by their verdicts, and are distributions over fleets.
func TestSummaries(t *testing.T) {
	row := func(e Entry, d, plain float64, verdict string) Row {
		of := func(x float64) evaluation.Interval { return evaluation.Interval{Mean: x, Lo: x, Hi: x} }
		return Row{Entry: e, Utility: of(1 + d), Difference: of(d), Plain: of(plain), Verdict: verdict}
	}
	own, a, b := Entry{Policy, "universal"}, Entry{Fixed, "m1"}, Entry{Fixed, "m2"}
	r := Report{Settings: Settings{Policies: []string{"universal"}, Workloads: []string{"u1"}}, Fleets: []FleetResult{
		{Seed: 1, Rows: []Row{row(own, 0.02, 0.1, evaluation.Better), row(a, -0.5, 0, evaluation.Worse), row(b, -0.1, 0, evaluation.Worse)}},
		{Seed: 2, Rows: []Row{row(own, -0.04, 0.1, evaluation.Worse), row(a, -0.2, 0, evaluation.Worse), row(b, -0.3, 0, evaluation.Worse)}},
		{Seed: 3, Rows: []Row{row(own, -0.01, -0.1, evaluation.Level), row(a, -0.2, 0, evaluation.Worse), row(b, -0.3, 0, evaluation.Worse)}},
	}}
	r.Sum()
	r.Sum() // changes nothing
	if len(r.Summaries) != 2 {
		t.Fatalf("%+v", r.Summaries)
	}
	s, fixed := r.Summaries[0], r.Summaries[1]
	if s.Wins != 1 || s.Ties != 1 || s.Losses != 1 || s.Worst != 2 || s.OverPlain != 2 || s.Spread != [5]float64{-0.04, -0.04, -0.01, 0.02, 0.02} {
		t.Errorf("%+v", s)
	}
	if fixed.Entry != bestFixed || fixed.Losses != 3 || fixed.Worst != 2 || fixed.Spread != [5]float64{-0.2, -0.2, -0.2, -0.1, -0.1} {
		t.Errorf("%+v", fixed)
	}
	var text strings.Builder
	if err := r.WriteTable(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"universal             1/1/1  -1.00 (", "fixed, the best size  0/0/3", "on 2 of 3 fleets", "-20.0"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &text)
		}
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}
