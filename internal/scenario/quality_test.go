package scenario_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/workloads/prompts"
)

// A file without the section has no predictor, and is the world that it was.
func TestQualityIsNotPredictedByDefault(t *testing.T) {
	s := parse(t, minimal(t))
	q := scenario.Of[scenario.Quality](s)
	if s.Predictor() != "" || q.KeepPrompts || !q.Headers || q.Shadow.Share != 0 || q.Feedback.Within != time.Hour || q.Learn.Every != time.Minute {
		t.Errorf("the defaults are %+v", q)
	}
	for lines, same := range map[string]bool{
		"quality: {headers: false, learn: {every: 5m}}\n": true,
		"quality: {predictor: chat}\n":                    false,
	} {
		if got := parse(t, minimal(t)+lines).Hash() == s.Hash(); got != same {
			t.Errorf("%q: the same world is %v, want %v", lines, got, same)
		}
	}
}

// A variant has its own name in scores unless the file says another.
func TestColumnsOfVariants(t *testing.T) {
	s := parse(t, minimal(t, "- name: small", "- name: small\n    scores_as: opt-125m"))
	if got := strings.Join(s.Columns(), " "); got != "opt-125m large" {
		t.Errorf("the columns are %s", got)
	}
}

// labelsOf writes a file of labels with so many prompts, each with the scores.
func labelsOf(t *testing.T, n int, scores string) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"prompt": "prompt number %d", "scores": %s}`+"\n", i, scores)
	}
	path := filepath.Join(t.TempDir(), "labels.jsonl")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// with is minimal.yaml whose requests carry the prompts, with more lines.
func with(t *testing.T, prompts, lines string, edits ...string) string {
	return minimal(t, append(edits, "workload:\n", "workload:\n  prompts: "+prompts+"\n")...) + lines
}

func TestFaultsOfPrompts(t *testing.T) {
	good := labelsOf(t, 100, `{"small": 0.5, "large": 1}`)
	for _, c := range []struct{ text, want string }{
		{with(t, "nine-modls", ""), `test.yaml:39: workload.prompts: there is no file nine-modls; want one of labelled prompts, or what is built in: nine-models`},
		{with(t, "nine-models", ""), `variants[0].scores_as: nine-models has no scores of "small"; it has codegemma-7b, `},
		{with(t, labelsOf(t, 100, `{"small": 2, "large": 1}`), ""), `labels.jsonl:1: score 2 of "small"; want a number from 0 to 1`},
		{with(t, labelsOf(t, 30, `{"small": 0, "large": 1}`), ""), `prompts with a score of each variant in one of its halves; want 20 or more`},
		{with(t, labelsOf(t, 100, `{"small": 0, "large": 1}, "task": "poem"`), ""), `has prompts of the task "poem", which is none of the file's; want chat, or no task`},
		{minimal(t) + "quality: {predictor: fit}\n", "quality.predictor: there are no prompts to fit a predictor to; want workload.prompts, or a name of the store such as chat"},
		{with(t, good, "quality: {predictor: oracle}\n"), `quality.predictor: "oracle" knows what no router knows`},
	} {
		_, err := scenario.Parse("test.yaml", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v\nwant %s", err, c.want)
		}
	}
	parse(t, with(t, good, "quality: {predictor: fit}\n"))
}

// A file is found by its path from the scenario's folder. What it holds makes the world, wherever
// it is.
func TestPromptsOfAFile(t *testing.T) {
	load := func(labels string) *scenario.Scenario {
		path := filepath.Join(filepath.Dir(labels), "scenario.yaml")
		if err := os.WriteFile(path, []byte(with(t, filepath.Base(labels), "")), 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := scenario.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, same, other := load(labelsOf(t, 100, `{"small": 0.5, "large": 1}`)), load(labelsOf(t, 100, `{"small": 0.5, "large": 1}`)), load(labelsOf(t, 100, `{"small": 0.5, "large": 0}`))
	if a.Hash() != same.Hash() || a.Hash() == other.Hash() || a.Hash() == parse(t, minimal(t)).Hash() {
		t.Error("the hash is not that of what the file holds")
	}
}

// Simulations play the one half, by the scores of the variants' columns. What predicts quality is
// what the file says, or what is set in its place.
func TestSimulationsPlayPrompts(t *testing.T) {
	s := load(t, "prompts-three")
	play := func(s *scenario.Scenario) *env.Prompts {
		c, err := s.Simulation()
		if err != nil {
			t.Fatal(err)
		}
		return c.Prompts
	}
	fit := play(s)
	n := len(fit.Scores)
	if n < 2700 || n > 2900 || len(fit.Predicted) != 1 || len(fit.Predicted[0]) != n {
		t.Fatalf("%d prompts are played, and %d are predicted", n, len(fit.Predicted))
	}
	if again := play(load(t, "prompts-three")); !reflect.DeepEqual(fit.Scores, again.Scores) || !samePredictions(fit.Predicted[0], again.Predicted[0]) {
		t.Error("a fit differs from the one before")
	}
	s.Predict(scenario.OraclePredictor, nil)
	for i, p := range play(s).Predicted[0] {
		if !slices.Equal(p.Quality[:3], fit.Scores[i]) || !p.Known {
			t.Fatalf("the oracle predicts %v of prompt %d, which scores %v", p.Quality[:3], i, fit.Scores[i])
		}
	}
	s.Predict("", nil)
	if none := play(s); none.Predicted != nil || len(none.Scores) != n {
		t.Errorf("nothing predicts, and yet: %d predictions, %d scores", len(none.Predicted), len(none.Scores))
	}
	if play(s.WithoutPrompts()) != nil {
		t.Error("a scenario without prompts plays some")
	}
	s.Predict("chat", nil)
	if _, err := s.Simulation(); err == nil || err.Error() != `quality.predictor: "chat": the predictor has not been read from the store` {
		t.Errorf("a predictor that was not read: %v", err)
	}
}

func samePredictions(a, b []fleet.Prediction) bool {
	return slices.EqualFunc(a, b, func(a, b fleet.Prediction) bool { a.Gains, b.Gains = nil, nil; return a == b })
}

// The declared row of prompts-three is the mean of the prompts that are not played.
func TestPromptsThreeDeclaresMeans(t *testing.T) {
	set, err := prompts.BuiltIn(prompts.NineModels)
	if err != nil {
		t.Fatal(err)
	}
	s := load(t, "prompts-three")
	fitted, _ := set.Of(s.Columns()).Halves()
	for v, mean := range fitted.Means() {
		if got := s.Tasks[0].Quality[s.Variants[v].Name]; math.Abs(got-mean) > .0006 {
			t.Errorf("%s has a quality of %v, and a mean score of %.4f", s.Variants[v].Name, got, mean)
		}
	}
}

// With a predictor it is no mistake that a larger variant is worth less.
func TestNoWarningOfOrderWithAPredictor(t *testing.T) {
	prompts := labelsOf(t, 100, `{"small": 0.5, "large": 1}`)
	for lines, warned := range map[string]bool{"": true, "quality: {predictor: chat}\n": false} {
		_, warnings, err := scenario.InspectText("test.yaml", []byte(with(t, prompts, lines, "small: 0.6, large: 1", "small: 0.6, large: 0.5")))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(warnings.Error(), "0.5 is below the 0.6 of small"); got != warned {
			t.Errorf("%q: a warning of the order: %v, want %v", lines, got, warned)
		}
	}
}
