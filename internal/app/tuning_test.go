package app

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/internal/onnxruntime"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/router/policy"
	"gearshift/serving/admin/overview"
	"gearshift/workloads"
)

// untuned returns a scenario that lists no rules and names no fallback, with the further lines under serving.
func untuned(t *testing.T, serving string) *scenario.Scenario {
	t.Helper()
	text, err := workloads.Scenario("tiny")
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Parse("mine.yaml", []byte(strings.Replace(string(text), "  fallback: slackfit ", serving+" #", 1)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// started returns the routing of a server that begins with the scenario.
func started(t *testing.T, o Options, s *scenario.Scenario) *Reloader {
	t.Helper()
	o.Engine, o.Remedy = onnxruntime.Native, func(string, string, string) (string, string) { return "remedy", "" }
	r, err := startRouting(o, s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A rule is searched for where the scenario lists none, unless the user wants another, or none.
func TestWhatIsTuned(t *testing.T) {
	here := func() Options { return Options{Store: filepath.Join(t.TempDir(), "policies.db")} }
	if newTuning(here(), untuned(t, ""), started(t, here(), untuned(t, ""))) == nil {
		t.Error("a scenario without rules is not tuned")
	}
	for name, test := range map[string]struct {
		serving string
		change  func(*Options)
	}{
		"a fallback is named": {"  fallback: threshold:3", func(*Options) {}},
		"turned off":          {"  tuning: off", func(*Options) {}},
		"--no-tuning":         {"", func(o *Options) { o.NoTuning = true }},
		"--policy":            {"", func(o *Options) { o.Policy = "threshold:4" }},
		"a policy in production": {"", func(o *Options) {
			store := &checkpoints.Store{Path: o.Store}
			entry, _, err := store.PutRule("threshold:4", time.Unix(0, 0))
			if err == nil {
				err = store.Promote(entry.Name, entry.Version, "")
			}
			if err != nil {
				t.Fatal(err)
			}
		}},
	} {
		o, s := here(), untuned(t, test.serving)
		test.change(&o)
		if newTuning(o, s, started(t, o, s)) != nil {
			t.Errorf("%s: tuned all the same", name)
		}
	}
}

// A rule that is better on other seeds is the fallback from then on, also after a restart, which searches no
// more; the policy in charge stays.
func TestABetterRuleIsTheFallback(t *testing.T) {
	s := untuned(t, "")
	o := Options{Store: filepath.Join(t.TempDir(), "policies.db")}
	r := started(t, o, s)
	x := newTuning(o, s, r)
	x.present, x.effort = "threshold:1", policies.Effort{Trials: 4, Seeds: 1, Requests: 200, Rates: 2}
	x.search(t.Context())
	found := x.shown()
	if found.State != overview.TuningDone || !found.Adopted || found.MarginLow <= 0 || r.core.PolicyName() != found.Rule {
		t.Fatalf("in charge is %s; %+v", r.core.PolicyName(), found)
	}
	again := started(t, o, s)
	if again.core.PolicyName() != found.Rule || !strings.Contains(again.fallback.why, "tuning in the background") || newTuning(o, s, again) != nil {
		t.Errorf("after a restart %s routes, %s", again.core.PolicyName(), again.fallback.why)
	}
	// Another scenario of the name knows nothing of it.
	other := untuned(t, "")
	other.Tasks[0].DeadlineMS++
	if f, err := chooseFallback(other, o.storeOfFallbacks()); err != nil || !f.untuned {
		t.Errorf("another version of the scenario falls back to %+v, %v", f, err)
	}
	if f, err := chooseFallback(untuned(t, "  tuning: off"), o.storeOfFallbacks()); err != nil || !f.untuned {
		t.Errorf("with tuning turned off: %+v, %v", f, err)
	}
	charge, err := again.maker.Parse("static:small")
	if err == nil {
		err = again.core.SetPolicy(charge)
	}
	if err != nil {
		t.Fatal(err)
	}
	x.core = again.core
	x.search(t.Context())
	if name := again.core.PolicyName(); name != "static:small" {
		t.Errorf("the policy in charge was replaced by %s", name)
	}
}

// Without a better rule the fallback stays, and the result is kept.
func TestARuleThatIsNotBetterChangesNothing(t *testing.T) {
	s := untuned(t, "")
	o := Options{Store: filepath.Join(t.TempDir(), "policies.db")}
	r := started(t, o, s)
	x := newTuning(o, s, r)
	before := r.core.PolicyName()
	level := evaluation.Verdict{Policy: "threshold:7", Rule: before, Margin: evaluation.Interval{Mean: 0.001, Lo: -0.001, Hi: 0.003}, Seeds: 8}
	f, err := x.adopt(level)
	if err != nil || r.core.PolicyName() != before || !strings.Contains(f.why, "no better rule: threshold:7 is over it by +0.0010") {
		t.Errorf("%s routes after %+v, %v", r.core.PolicyName(), f, err)
	}
	if again, err := chooseFallback(s, o.storeOfFallbacks()); err != nil || again.rule != f.rule || again.untuned {
		t.Errorf("after a restart: %+v, %v", again, err)
	}
}

// A search that cannot be made, or is interrupted, leaves the fallback.
func TestASearchThatFails(t *testing.T) {
	s := untuned(t, "")
	o := Options{Store: filepath.Join(t.TempDir(), "policies.db")}
	r := started(t, o, s)
	x := newTuning(o, s, r)
	before := r.core.PolicyName()
	x.effort = policies.Effort{}
	x.search(t.Context())
	if got := x.shown(); got.State != overview.TuningFailed || got.Error == "" || r.core.PolicyName() != before {
		t.Errorf("%s routes, %+v", r.core.PolicyName(), got)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	x.effort = policies.Minute
	x.search(stopped)
	if f, err := chooseFallback(s, o.storeOfFallbacks()); err != nil || !f.untuned || policy.IsRule(before) == false {
		t.Errorf("an interrupted search left %+v, %v", f, err)
	}
}
