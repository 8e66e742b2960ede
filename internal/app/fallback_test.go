package app

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/router/nn"
	"gearshift/workloads"
)

// The fallback is what the scenario names, else the best of its rules: by what is recorded
// of this scenario, else the first.
func TestFallback(t *testing.T) {
	text, err := workloads.Scenario("tiny")
	if err != nil {
		t.Fatal(err)
	}
	parse := func(rules, named string) *scenario.Scenario {
		t.Helper()
		edited := strings.Replace(string(text), "  fallback: slackfit ", named+" #", 1)
		edited = strings.Replace(edited, "evaluation:\n", "evaluation:\n"+rules, 1)
		s, err := scenario.Parse("mine.yaml", []byte(edited))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const rules = "  rules: ['static:small', 'threshold:6', 'slackfit:.8']\n"
	unnamed := parse(rules, "")
	store := &checkpoints.Store{Path: filepath.Join(t.TempDir(), "policies.db")}
	by := evaluation.MeanUtility
	record := func(s *scenario.Scenario, created int64, scores map[string]float64) {
		t.Helper()
		h := policies.HeldOut{Seeds: 10, Objective: by}
		for policy, score := range scores {
			h.Policies = append(h.Policies, policies.HeldRow{Policy: policy, Score: evaluation.Interval{Mean: score}})
		}
		evaluation, err := json.Marshal(policies.Evaluation{HeldOut: h})
		if err != nil {
			t.Fatal(err)
		}
		spec := s.Spec()
		network, err := nn.New(spec.Dim(), 4, len(spec.Variants))
		if err != nil {
			t.Fatal(err)
		}
		c := &checkpoints.Checkpoint{Network: network, Meta: checkpoints.Meta{
			Scenario: s.Name, ScenarioHash: s.Hash(), Spec: spec, SpecHash: spec.Hash(), Config: []byte("{}"), Evaluation: evaluation,
		}}
		if _, _, err := store.Put("mine", c, time.Unix(created, 0)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(s *scenario.Scenario, rule, why string) {
		t.Helper()
		if f, err := chooseFallback(s, store); err != nil || f.rule != rule || !strings.Contains(f.why, why) {
			t.Errorf("the fallback is %+v, %v; want %s, %s", f, err, rule, why)
		}
	}
	want(unnamed, "static:small", "the first of evaluation.rules") // no store yet
	want(parse(rules, "  fallback: threshold:3"), "threshold:3", "serving.fallback")
	want(parse("", ""), "universal", "no evaluation.rules;")
	bare := parse("", "")
	bare.Training.Objective, bare.Evaluation.RulesFor = evaluation.NearPeak, nil
	want(bare, "budget", "no evaluation.rules_for near-peak; gearshift eval --tune --tune-for near-peak finds some")
	record(unnamed, 1, map[string]float64{"policy": 0.9, "static:small": 0.8, "threshold:6": 0.6, "slackfit:0.8": 0.7, "slackfit:0.93": 0.75})
	want(unnamed, "slackfit:0.8", "the best of evaluation.rules over 10 held-out seeds, as recorded with mine@1")
	record(unnamed, 2, map[string]float64{"policy": 0.9, "threshold:6": 0.7, "slackfit:0.8": 0.6})
	want(unnamed, "threshold:6", "mine@2")
	record(unnamed, 3, map[string]float64{"policy": 0.9, "slackfit:0.93": 0.6}) // has none of them
	want(unnamed, "threshold:6", "mine@2")
	want(parse("  rules: ['slackfit:.9']\n", ""), "slackfit:.9", "the first of evaluation.rules")
	by = evaluation.NearPeak // which the scenario does not go by, unless it says so
	record(unnamed, 4, map[string]float64{"policy": 0.9, "static:small": 0.8, "threshold:6": 0.1, "slackfit:0.8": 0.2})
	want(unnamed, "threshold:6", "mine@2")
	aimed := parse(rules, "")
	aimed.Training.Objective = evaluation.NearPeak
	want(aimed, "slackfit:0.8", "the best of evaluation.rules by near-peak over 10 held-out seeds, as recorded with mine@4")
	want(parse(rules, "  fallback: threshold:3"), "threshold:3", "serving.fallback")
	store = &checkpoints.Store{Path: filepath.Join(t.TempDir(), "empty.db")}
	aimed.Evaluation.RulesFor = nil
	want(aimed, "budget", "no evaluation.rules_for near-peak")
	aimed.Evaluation.RulesFor = map[string][]string{"near-peak": {"threshold:5"}}
	want(aimed, "threshold:5", "the first of evaluation.rules_for")
	want(unnamed, "static:small", "the first of evaluation.rules")
	store = &checkpoints.Store{Path: filepath.Join(t.TempDir(), "again.db")}
	record(aimed, 1, map[string]float64{"policy": 0.9, "threshold:5": 0.8, "threshold:6": 0.1, "slackfit:0.8": 0.2})
	want(aimed, "threshold:5", "mine@1")
}

// Where nothing is in production, what was trained last for the scenario is proposed: if
// it beat the best rule, else that rule.
func TestWhatToPromote(t *testing.T) {
	entry := func(version int, hash string, margin evaluation.Interval) checkpoints.Entry {
		evaluation, err := json.Marshal(policies.Evaluation{HeldOut: policies.HeldOut{Policies: []policies.HeldRow{{}}, BestRule: "slackfit:0.9", Margin: margin}})
		if err != nil {
			t.Fatal(err)
		}
		return checkpoints.Entry{
			Name: "mine", Version: version, Created: time.Unix(int64(version), 0), Meta: checkpoints.Meta{ScenarioHash: hash, Evaluation: evaluation},
		}
	}
	better, level := evaluation.Interval{Mean: .02, Lo: .01, Hi: .03}, evaluation.Interval{Mean: .02, Lo: -.01, Hi: .05}
	unjudged := checkpoints.Entry{Name: "mine", Version: 9, Created: time.Unix(9, 0), Meta: checkpoints.Meta{ScenarioHash: "here"}}
	for _, c := range []struct {
		want   string
		stored []checkpoints.Entry
	}{
		{"", nil},
		{"", []checkpoints.Entry{entry(1, "elsewhere", better), unjudged}},
		{"mine@1", []checkpoints.Entry{entry(1, "here", better), entry(2, "elsewhere", better), unjudged}},
		{"slackfit:0.9", []checkpoints.Entry{entry(1, "here", better), entry(2, "here", level)}},
		{"mine@2", []checkpoints.Entry{entry(1, "here", level), entry(2, "here", better)}},
	} {
		if got := toPromote(c.stored, "here", "utility"); got != c.want {
			t.Errorf("%d stored: %q, want %q", len(c.stored), got, c.want)
		}
		if got := toPromote(c.stored, "here", "near-peak"); got != "" {
			t.Errorf("%d stored, judged by utility: %q for near-peak", len(c.stored), got)
		}
	}
}
