package policies

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/router/nn"
	"gearshift/router/observation"
	"gearshift/router/policy"
)

func tiny(t *testing.T) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A rule that a scenario lists in two ways is one opponent.
func TestOpponentsAreListedOnce(t *testing.T) {
	s := tiny(t)
	s.Evaluation.Rules = []string{"slackfit:0.93", "static:" + s.Variants[0].Name}
	j, err := NewJudge(s, observation.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range j.rules {
		names = append(names, c.Name)
	}
	if want := 2 + len(s.Variants); len(names) != want || len(slices.Compact(slices.Sorted(slices.Values(names)))) != want {
		t.Errorf("opponents %v, want %d different ones", names, want)
	}
}

// A policy must beat the rules for what it was trained for, those for mean utility, and the
// rule whose advice it follows.
func TestOpponentsAreForTheObjective(t *testing.T) {
	s := tiny(t)
	s.Evaluation.Rules = []string{"slackfit:0.9"}
	s.Evaluation.RulesFor = map[string][]string{"near-peak": {"threshold:5"}}
	for text, want := range map[string][]string{
		"utility": {"slackfit:0.9"}, "power:8": {"slackfit:0.9"}, "near-peak": {"threshold:5", "slackfit:0.9"}, "windows:0.98,20": {"threshold:5", "slackfit:0.9"},
	} {
		o, err := evaluation.ParseObjective(text)
		if err != nil {
			t.Fatal(err)
		}
		rules, err := Opponents(s, o)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, c := range rules {
			names = append(names, c.Name)
		}
		if n := len(want); !slices.Equal(names[:n], want) || len(names) != n+len(s.Variants)+2 {
			t.Errorf("%s: opponents %v, want %v, the sizes and two plain rules", text, names, want)
		}
	}
	s.Evaluation.RulesFor = nil
	if refs := OpponentRefs(s, evaluation.NearPeak); !slices.Contains(refs, s.BestRuleFor(evaluation.NearPeak)) || slices.Contains(OpponentRefs(s, evaluation.MeanUtility), s.BestRuleFor(evaluation.NearPeak)) {
		t.Errorf("opponents %v, without the rule whose advice is followed, or with it for utility", refs)
	}
}

// What cannot be judged is not trained: that no request will come is said at first.
func TestNothingToJudgeOn(t *testing.T) {
	s := tiny(t)
	s.Evaluation.PhaseS, s.Evaluation.StableRates = 1, []float64{1e-6, 5}
	if _, err := NewJudge(s, observation.Spec{}); err == nil || !strings.Contains(err.Error(), "stable:1e-06: no request comes") {
		t.Errorf("error %v", err)
	}
}

// What a checkpoint carries is of the policy that will act, with its caution: here it
// departs from the rule nowhere.
func TestSummariesAreOfThePolicyThatActs(t *testing.T) {
	s := tiny(t)
	s.Evaluation.Requests, s.Evaluation.StableRates = 200, []float64{2, 6}
	spec := s.Spec()
	var members []*nn.MLP
	for _, lead := range []float32{1, 3} { // of the small size
		net, err := nn.New(spec.Inputs(), spec.Outputs())
		if err != nil {
			t.Fatal(err)
		}
		net.Biases[0][0] = lead
		members = append(members, net)
	}
	stack, err := nn.Stack(members...)
	if err != nil {
		t.Fatal(err)
	}
	if stack, err = stack.Favouring(0.1, spec.Outputs()); err != nil {
		t.Fatal(err)
	}
	j, err := NewJudge(s, spec)
	if err != nil {
		t.Fatal(err)
	}
	text, err := j.Summary(t.Context(), stack, policy.Trust{Caution: 3}, true)
	if err != nil {
		t.Fatal(err)
	}
	var got Evaluation
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	rule := slices.IndexFunc(got.HeldOut.Policies, func(r HeldRow) bool { return strings.HasPrefix(r.Policy, "slackfit") })
	if rule < 0 || got.HeldOut.Policies[0].Score != got.HeldOut.Policies[rule].Score {
		t.Errorf("held out: %+v, want the policy to do as slackfit does", got.HeldOut.Policies)
	}
	daring, err := j.Summary(t.Context(), stack, policy.Trust{}, false)
	if err != nil {
		t.Fatal(err)
	}
	var other Evaluation
	if err := json.Unmarshal(daring, &other); err != nil || maps.Equal(other.Utility, got.Utility) {
		t.Errorf("on validation seeds %v, without caution %v (%v)", got.Utility, other.Utility, err)
	}
}
