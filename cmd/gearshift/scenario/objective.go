package scenario

import (
	"slices"

	"gearshift/env/objective"
	"gearshift/router/observation"
)

// RulesFor are the best rules known for an objective, the best first: those tuned for it, or
// for windows those of [objective.NearPeak], and then those of evaluation.rules.
func (s *Scenario) RulesFor(o objective.Objective) []string {
	var rules []string
	for _, ref := range slices.Concat(s.tunedFor(o), s.Evaluation.Rules) {
		if !slices.Contains(rules, ref) {
			rules = append(rules, ref)
		}
	}
	return rules
}

func (s *Scenario) tunedFor(o objective.Objective) []string {
	for text, rules := range s.Evaluation.RulesFor {
		if of, err := objective.Parse(text); err == nil && of == o {
			return rules
		}
	}
	if o.Window() > 1 && o != objective.NearPeak {
		return s.tunedFor(objective.NearPeak)
	}
	return nil
}

// windowRule is the best rule for windows of a scenario that lists none.
const windowRule = "budget"

// BestRuleFor is the first rule that is tuned for the objective; where there is none,
// [windowRule] of windows, and else [Scenario.BestRule].
func (s *Scenario) BestRuleFor(o objective.Objective) string {
	switch rules := s.tunedFor(o); {
	case len(rules) > 0:
		return rules[0]
	case o.Window() > 1:
		return windowRule
	}
	return s.BestRule()
}

// observationFor is what a policy sees that is trained for the objective. In place of a rule
// that is the best for utility, that for the objective gives the advice; and of an objective of
// windows, how the window stands is seen, too.
func (s *Scenario) observationFor(o objective.Objective) []observation.Feature {
	features := slices.Clone(s.Training.Observation)
	if o == objective.Utility || len(features) == 0 {
		return features
	}
	if f := &features[0]; f.Kind == observation.Advice && (f.Rule == s.BestRule() || slices.Contains(s.Evaluation.Rules, f.Rule)) {
		f.Rule = s.BestRuleFor(o)
	}
	standing := func(f observation.Feature) bool { return f.Kind == observation.Shortfall }
	if o.Window() > 1 && !slices.ContainsFunc(features, standing) {
		features = append(features, shortfallIn(o.Window()))
	}
	return features
}

// spendable is the share of a window's peak that leaves it near its peak.
const spendable = 0.02

// shortfallIn observes what the latest requests of a window fell short by: of all of those
// before the present one, and of those that are in it for longer than others.
func shortfallIn(window int) observation.Feature {
	f := observation.Feature{Kind: observation.Shortfall}
	for _, sixths := range []int{1, 2, 4, 6} {
		n := max(1, (window-1)*sixths/6)
		if !slices.Contains(f.Requests, n) {
			f.Requests, f.Scale = append(f.Requests, n), append(f.Scale, spendable*float64(window))
		}
	}
	return f
}
