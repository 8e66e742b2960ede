package app

import (
	"encoding/json"
	"fmt"
	"slices"

	"gearshift/checkpoints"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/router/policy"
)

// A fallback is the rule that routes where no policy does, and why it is that one.
type fallback struct {
	rule, why string
	// untuned is set where the scenario lists no rules, and no search has found one.
	untuned bool
}

// chooseFallback returns the rule that the scenario names or, where it names none, its best one:
// of those for its objective the one that did best in the newest comparison, by that, that a
// policy of it carries in the store or, without one, the first, for the best is listed first.
// Nothing is played for it. What is wrong with the store is for others to say.
func chooseFallback(s *scenario.Scenario, store *checkpoints.Store) (fallback, error) {
	if s.NamesFallback() {
		return fallback{rule: s.Serving.Fallback, why: "serving.fallback"}, nil
	}
	maker, err := s.Maker(s.ServingTable())
	if err != nil {
		return fallback{}, err
	}
	listed := map[string]bool{}
	for _, ref := range s.RulesFor(s.Training.Objective) {
		rule, err := maker.Parse(ref)
		if err != nil {
			return fallback{}, err
		}
		if _, alone := rule.(*policy.Static); !alone { // it was played with all of the memory
			listed[rule.Name()] = true
		}
	}
	if store != nil && len(listed) > 0 {
		if entries, err := store.List(); err == nil {
			if f, ok := recorded(s, listed, entries); ok {
				return f, nil
			}
		}
	}
	if store != nil && len(s.RulesFor(s.Training.Objective)) == 0 && s.Serving.Tuning != scenario.TuningOff {
		if f, ok := storedTuning(s, store); ok {
			return f, nil
		}
	}
	return usual(s), nil
}

// usual returns the best rule for the scenario's objective by what its file says.
func usual(s *scenario.Scenario) fallback {
	f := fallback{rule: s.BestRuleFor(s.Training.Objective), why: "the first of evaluation.rules"}
	switch rules := s.RulesFor(s.Training.Objective); {
	case len(rules) == 0:
		f = fallback{rule: s.Serving.Fallback, why: "the scenario lists no evaluation.rules; gearshift eval --tune finds some", untuned: true}
		if !s.Training.Objective.IsZero() {
			f.rule, f.why = s.BestRuleFor(s.Training.Objective), noRulesFor(s)
		}
	case rules[0] != f.rule:
		f.why = noRulesFor(s)
	case !slices.Contains(s.Evaluation.Rules, f.rule):
		f.why = "the first of evaluation.rules_for"
	}
	return f
}

func noRulesFor(s *scenario.Scenario) string {
	return fmt.Sprintf("the scenario lists no evaluation.rules_for %s; gearshift eval --tune --tune-for %[1]s finds some", s.Training.Objective)
}

// recorded returns the best of the listed rules in the newest comparison, by the scenario's
// objective, that a policy of it carries; false if none of them is in one.
func recorded(s *scenario.Scenario, listed map[string]bool, entries []checkpoints.Entry) (best fallback, ok bool) {
	hash := s.Hash()
	var newest checkpoints.Entry
	for _, e := range entries {
		if e.Meta.ScenarioHash != hash || ok && !e.Created.After(newest.Created) {
			continue
		}
		var evaluation policies.Evaluation
		if json.Unmarshal(e.Meta.Evaluation, &evaluation) != nil || evaluation.HeldOut.Objective != s.Training.Objective {
			continue
		}
		if rule := bestOf(listed, evaluation.HeldOut.Policies); rule != "" {
			newest, ok = e, true
			best = fallback{rule: rule, why: fmt.Sprintf("the best of evaluation.rules %s, as recorded with %s", over(&evaluation.HeldOut), e.Ref())}
		}
	}
	return best, ok
}

// over says what a comparison rests on.
func over(h *policies.HeldOut) string {
	text := fmt.Sprintf("over %d held-out %s", h.Seeds, h.Verdict("").Unit())
	if !h.Objective.IsZero() {
		text = "by " + h.Objective.String() + " " + text
	}
	return text
}

// bestOf returns the listed rule with the highest score; empty if there is none.
func bestOf(listed map[string]bool, rows []policies.HeldRow) (rule string) {
	score := 0.0
	for _, row := range rows {
		if listed[row.Policy] && (rule == "" || row.Score.Mean > score) {
			rule, score = row.Policy, row.Score.Mean
		}
	}
	return rule
}
