package scenario

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"gearshift/env/evaluation"
	"gearshift/router/observation"
)

// RulesFor returns the best rules known for an objective, the best first: those tuned for it, or
// for windows those of [objective.NearPeak], and then those of evaluation.rules.
func (s *Scenario) RulesFor(o evaluation.Objective) []string {
	var rules []string
	for _, ref := range slices.Concat(s.tunedFor(o), s.Evaluation.Rules) {
		if !slices.Contains(rules, ref) {
			rules = append(rules, ref)
		}
	}
	return rules
}

func (s *Scenario) tunedFor(o evaluation.Objective) []string {
	for text, rules := range s.Evaluation.RulesFor {
		if of, err := evaluation.ParseObjective(text); err == nil && of == o {
			return rules
		}
	}
	if o.Window() > 1 && o != evaluation.NearPeak {
		return s.tunedFor(evaluation.NearPeak)
	}
	return nil
}

// windowRule is the best rule for windows of a scenario that lists none.
const windowRule = "budget"

// BestRuleFor returns the first rule that is tuned for the objective; where there is none,
// [windowRule] of windows, and else [Scenario.BestRule].
func (s *Scenario) BestRuleFor(o evaluation.Objective) string {
	switch rules := s.tunedFor(o); {
	case len(rules) > 0:
		return rules[0]
	case o.Window() > 1:
		return windowRule
	}
	return s.BestRule()
}

// observationFor returns what a policy sees that is trained for the objective. In place of a rule
// that is the best for utility, that for the objective gives the advice; and of an objective of
// windows, how the window stands is seen, too.
func (s *Scenario) observationFor(o evaluation.Objective) []observation.Feature {
	features := slices.Clone(s.Training.Observation)
	if o == evaluation.MeanUtility || len(features) == 0 {
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

// objectiveKeys are those of an objective with numbers, which may be written as a mapping,
// {power: 8}, as well as in a word, power:8.
type objectiveKeys struct {
	Power   *float64    `yaml:"power,omitempty"`
	Windows *windowKeys `yaml:"windows,omitempty"`
}

type windowKeys struct {
	Share float64 `yaml:"share"`
	Of    int     `yaml:"of"`
}

// wantObjective is what the key of an objective takes.
const wantObjective = "an objective: " + evaluation.ObjectiveForms + ", or {power: P} or {windows: {share: SHARE, of: N}}"

func (d *decoder) objective(key string, n *yaml.Node, o *evaluation.Objective) {
	if n.Kind == yaml.MappingNode {
		*o = d.mappedObjective(key, n)
		return
	}
	if n.Kind != yaml.ScalarNode || n.Value == "" || n.ShortTag() == "!!null" {
		d.want(key, wantObjective, n)
		return
	}
	var err error
	*o, err = readObjective(n.Value)
	d.refused(key, err)
}

// readObjective reads an objective in a word, and knows what a misspelt one stands for.
func readObjective(text string) (evaluation.Objective, error) {
	o, err := evaluation.ParseObjective(text)
	if err == nil || strings.Contains(text, ":") {
		return o, err
	}
	if meant := closest(text, []string{evaluation.MeanUtility.String(), evaluation.NearPeak.String()}); meant != "" {
		return o, fmt.Errorf("unknown objective %q; did you mean %q?", text, meant)
	}
	return o, err
}

// mappedObjective returns that of a mapping; utility, if a fault is reported.
func (d *decoder) mappedObjective(key string, n *yaml.Node) evaluation.Objective {
	var keys objectiveKeys
	before := len(d.faults)
	d.structure(key, n, reflect.ValueOf(&keys).Elem())
	if len(d.faults) > before {
		d.breaks(key)
		return evaluation.MeanUtility
	}
	power, windows := child(key, "power"), child(key, "windows")
	switch {
	case keys.Power != nil && keys.Windows != nil:
		d.unreadable(key, "has both power, on line %d, and windows, on line %d; an objective is one of them", d.line(power), d.line(windows))
	case keys.Power != nil:
		o, err := evaluation.PowerObjective(*keys.Power)
		d.refused(power, err)
		return o
	case keys.Windows != nil:
		_, share := evaluation.WindowsObjective(keys.Windows.Share, 2)
		d.refused(child(windows, "share"), share)
		o, of := evaluation.WindowsObjective(1, keys.Windows.Of)
		d.refused(child(windows, "of"), of)
		if share == nil && of == nil {
			o, _ = evaluation.WindowsObjective(keys.Windows.Share, keys.Windows.Of)
		}
		return o
	default:
		d.want(key, wantObjective, n)
	}
	return evaluation.MeanUtility
}

// refused reports what is wrong with a value that was read, if anything is.
func (d *decoder) refused(key string, err error) {
	if err != nil {
		d.unreadable(key, "%v", err)
	}
}
