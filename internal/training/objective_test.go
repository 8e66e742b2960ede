package training

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/internal/training/policies"
	"gearshift/rl"
	"gearshift/router/fleet"
	"gearshift/serving/experience"
	"gearshift/workloads"
)

// A run is for the objective of its options, or else of its scenario, and the checkpoint
// remembers it, unless it is utility. A run for another is another.
func TestObjectiveOfARun(t *testing.T) {
	s := tiny(t)
	hash := s.Hash()
	s.Training.Objective = evaluation.NearPeak
	made := func(by *evaluation.Objective) *run {
		t.Helper()
		r, err := newRunOn(Options{Preset: "quick", Store: storePath(t), Seed: 1, Objective: by}, s)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	power, err := evaluation.PowerObjective(8)
	if err != nil {
		t.Fatal(err)
	}
	own, other, plain := made(nil), made(&power), made(&evaluation.MeanUtility)
	for r, want := range map[*run]string{own: "near-peak", other: "power:8", plain: ""} {
		if r.meta.Objective != want || policies.Aim(r.scenario.Training.Objective) != want || r.meta.ScenarioHash != hash {
			t.Errorf("trains for %q, by %s, want %q; hash %s, was %s", r.meta.Objective, r.scenario.Training.Objective, want, r.meta.ScenarioHash, hash)
		}
		if !sameTraining(r.meta, r.meta) || r.matches(r.meta) != nil {
			t.Errorf("the run for %q is not itself", want)
		}
	}
	if s.Training.Objective != evaluation.NearPeak {
		t.Error("the options changed the scenario")
	}
	if sameTraining(own.meta, plain.meta) || plain.matches(own.meta) == nil {
		t.Error("a run for utility is one for near-peak")
	}
	preset := s.Training.Presets["quick"]
	preset.MarginalRewards = true
	s.Training.Presets["quick"] = preset
	_, err = newRunOn(Options{Preset: "quick", Store: storePath(t)}, s)
	if err == nil || !strings.Contains(err.Error(), "training.presets.quick.marginal_rewards") || !strings.Contains(err.Error(), "training.objective") {
		t.Errorf("marginal rewards by near-peak: %v", err)
	}
	made(&evaluation.MeanUtility)
}

// The simulator rewards by the scenario's objective: together, by what the windows of an
// episode lack of being worth all they could be.
func TestEnvironmentRewardsByTheObjective(t *testing.T) {
	const episode = 300
	var peaks []float64
	play := func(by evaluation.Objective) (rewards []float64) {
		s := tiny(t)
		s.Training.Objective = by
		e, err := NewEnvironment(s, s.Spec(), &rl.Config{Episode: episode})
		if err != nil {
			t.Fatal(err)
		}
		e.Reset(workloads.Seed(workloads.Training, 1))
		rewards, peaks = make([]float64, episode), nil
		for range episode {
			peaks = append(peaks, e.View().Table.Tasks[e.Request().Task].Peak())
			for _, c := range e.Step(1).Completed {
				rewards[c.Decision] += c.Utility
			}
		}
		return rewards
	}
	utility := play(evaluation.MeanUtility)
	windows := float64(episode - evaluation.Window + 1)
	want := (evaluation.NearPeak.Value(utility, peaks) - 1) * windows / evaluation.Window
	var sum float64
	for _, reward := range play(evaluation.NearPeak) {
		sum += reward
	}
	if want >= 0 || math.Abs(sum-want) > 1e-6 {
		t.Errorf("rewards of %v together, want %v", sum, want)
	}
}

// Logged rows are rewarded by the objective, and for utility by the very utility. A row of
// which nothing is known counts in its windows as answered in time by its variant.
func TestRecordingRewardsByTheObjective(t *testing.T) {
	row := func(variant int, utility float64, known bool) experience.Row {
		return experience.Row{Variant: variant, Utility: utility, Judged: known}
	}
	rows := []experience.Row{row(1, 2, true), row(1, 0.3, true), row(0, 0, false), row(1, 2, true), row(1, 0, false), row(1, 2, true)}
	pairs, err := evaluation.WindowsObjective(0.9, 2)
	if err != nil {
		t.Fatal(err)
	}
	for by, want := range map[evaluation.Objective][]float64{
		evaluation.MeanUtility: {2, 0.3, 1, 2, 2, 2},
		// Row 1 spoils the windows (0, 1) and (1, 2); row 2, half its peak, (2, 3).
		pairs: {0, -1, -0.5, 0, 0, 0},
	} {
		recording := &LogRecording{credit: evaluation.NewCredit(by), tasks: []fleet.Task{{Weight: 2, Quality: []float64{0.5, 1}}}}
		for range 2 {
			if got := recording.reward(rows); !slices.Equal(got, want) {
				t.Errorf("rewards by %s: %v, want %v", by, got, want)
			}
			recording.rewards = recording.reward(rows)
		}
	}
}

// A log fine-tunes a policy for its own objective alone, as the checkpoint has it, and none
// for what this version does not know.
func TestALogKeepsTheObjective(t *testing.T) {
	power, err := evaluation.PowerObjective(8)
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range []evaluation.Objective{evaluation.MeanUtility, evaluation.NearPeak, power} {
		start := checkpoints.Meta{Objective: policies.Aim(own)}
		o := Options{From: "mine"}
		if err := o.keepObjective("mine@1", start); err != nil || *o.Objective != own {
			t.Errorf("for %s: %v, %v", own, o.Objective, err)
		}
		other := evaluation.NearPeak
		if own == other {
			other = evaluation.MeanUtility
		}
		o.Objective = &other
		if err := o.keepObjective("mine@1", start); err == nil || !strings.Contains(err.Error(), "mine@1 was trained for "+own.String()) {
			t.Errorf("for %s as if for %s: %v", own, other, err)
		}
	}
	o := Options{From: "mine"}
	err = o.keepObjective("mine@1", checkpoints.Meta{Objective: "speed"})
	if want := `--from "mine": cannot fine-tune mine@1: it was trained for what another version knows: unknown objective "speed"`; err == nil || !strings.HasPrefix(err.Error(), want) || o.Objective != nil {
		t.Errorf("%v, want %s", err, want)
	}
}
