package scenario_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/router/observation"
)

// trainedFor is what a policy of a preset sees that is trained for the objective.
func trainedFor(t *testing.T, s *scenario.Scenario, preset, by string) []observation.Feature {
	t.Helper()
	c := *s
	if err := c.Training.Objective.UnmarshalText([]byte(by)); err != nil {
		t.Fatal(err)
	}
	p, err := s.Preset(preset)
	if err != nil {
		t.Fatal(err)
	}
	trained := c.Trained(p)
	if again := trained.Trained(p); !reflect.DeepEqual(again.Training.Observation, trained.Training.Observation) {
		t.Errorf("%s for %s: trained twice it sees %+v", preset, by, again.Training.Observation)
	}
	return trained.Training.Observation
}

// For windows a policy sees, beside what it sees for utility, how the window stands, once; and
// the rule whose advice it takes is the best for the objective, if it is the scenario's own.
func TestWhatIsSeenForAnObjective(t *testing.T) {
	s := load(t, "titan-rtx-opt")
	for _, preset := range []string{"default", "quick", "paper", "placement"} {
		plain := trainedFor(t, s, preset, "utility")
		for _, by := range []string{"near-peak", "windows:0.9,2", "windows:0.98,64", "power:8"} {
			got := trainedFor(t, s, preset, by)
			standing := slices.IndexFunc(got, func(f observation.Feature) bool { return f.Kind == observation.Shortfall })
			if by == "power:8" {
				if !reflect.DeepEqual(got, plain) {
					t.Errorf("%s for %s: %+v, want %+v", preset, by, got, plain)
				}
				continue
			}
			if standing != len(got)-1 || len(got) != len(plain)+1 {
				t.Fatalf("%s for %s: %+v", preset, by, got)
			}
			if f := plain[0]; f.Kind == observation.Advice {
				f.Rule = s.Evaluation.RulesFor["near-peak"][0]
				if got[0].Rule != f.Rule {
					t.Errorf("%s for %s: advice of %s, want %s", preset, by, got[0].Rule, f.Rule)
				}
				got, plain := got[1:standing], plain[1:]
				if !reflect.DeepEqual(got, plain) {
					t.Errorf("%s for %s: %+v, want %+v", preset, by, got, plain)
				}
			}
		}
	}
	for by, want := range map[string][]int{"near-peak": {3, 6, 12, 19}, "windows:0.9,2": {1}, "windows:1,64": {10, 21, 42, 63}} {
		list := trainedFor(t, s, "default", by)
		if f := list[len(list)-1]; !slices.Equal(f.Requests, want) || len(f.Scale) != len(want) {
			t.Errorf("for %s shortfalls are of %v requests, want %v", by, f.Requests, want)
		}
	}
}

// A scenario that leaves everything out takes the advice of the plain rule for windows; what
// names another rule, or sees the window in its own way, is left as it is.
func TestOwnObservationsAreKept(t *testing.T) {
	bare := parse(t, minimal(t))
	if got := trainedFor(t, bare, "quick", "near-peak"); got[0].Rule != "budget" || got[len(got)-1].Kind != observation.Shortfall {
		t.Errorf("%+v", got)
	}
	own := *bare
	own.Training.Observation = []observation.Feature{
		{Kind: observation.Advice, Rule: "threshold:7"},
		{Kind: observation.Shortfall, Requests: []int{5}, Scale: []float64{1}},
	}
	preset := own.Training.Presets["quick"]
	preset.Observation = nil
	own.Training.Presets = map[string]scenario.Preset{"quick": preset}
	if got := trainedFor(t, &own, "quick", "near-peak"); !reflect.DeepEqual(got, own.Training.Observation) {
		t.Errorf("%+v, want %+v", got, own.Training.Observation)
	}
}

// The rules for windows are those that are listed for them, or else for near-peak, and after
// them those for utility; each once, the best first.
func TestRulesForAnObjective(t *testing.T) {
	s := parse(t, minimal(t))
	s.Evaluation.Rules = []string{"slackfit:0.8", "threshold:4"}
	for _, c := range []struct {
		by, best string
		rules    []string
	}{
		{"utility", "slackfit:0.8", []string{"slackfit:0.8", "threshold:4"}},
		{"power:8", "slackfit:0.8", []string{"slackfit:0.8", "threshold:4"}},
		{"power:3", "threshold:9", []string{"threshold:9", "slackfit:0.8", "threshold:4"}},
		{"near-peak", "threshold:4", []string{"threshold:4", "budget", "slackfit:0.8"}},
		{"windows:0.98,20", "threshold:4", []string{"threshold:4", "budget", "slackfit:0.8"}},
		{"windows:0.9,5", "threshold:3", []string{"threshold:3", "slackfit:0.8", "threshold:4"}},
	} {
		s.Evaluation.RulesFor = map[string][]string{
			"near-peak": {"threshold:4", "budget"}, "windows:0.90,5": {"threshold:3"}, "power:3": {"threshold:9"},
		}
		o, err := evaluation.ParseObjective(c.by)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.RulesFor(o); !slices.Equal(got, c.rules) || s.BestRuleFor(o) != c.best {
			t.Errorf("for %s: %v, the best %s; want %v, %s", c.by, got, s.BestRuleFor(o), c.rules, c.best)
		}
	}
}

// Rules for an objective are listed once, however it is written.
func TestRulesForFaults(t *testing.T) {
	for lines, want := range map[string]string{
		"{near-peak: [threshold:4], power:8: [threshold:3], power:8.0: [threshold:2]}": "evaluation.rules_for.power:8.0: is power:8, whose rules evaluation.rules_for.power:8 lists; want one list",
		"{utility: [threshold:4]}":  "evaluation.rules_for.utility: the rules for utility are those of evaluation.rules",
		"{speed: [threshold:4]}":    `evaluation.rules_for.speed: unknown objective "speed"; want utility, near-peak, power:P or windows:SHARE,N`,
		"{near-peak: [static:big]}": "evaluation.rules_for.near-peak[0]: ",
	} {
		_, err := scenario.Parse("f", []byte(minimal(t)+"\nevaluation:\n  rules_for: "+lines+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v\nwant\n%s", lines, err, want)
		}
	}
}
