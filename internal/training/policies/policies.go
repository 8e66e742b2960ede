// Package policies finds what references name for a scenario's fleet: rules, stored
// policies, and clairvoyants over either. For an evaluation it makes contestants of them,
// and it searches for the best parameters of the rules.
//
// It also decides whether a policy may go into production: a [Judge] scores it on validation
// seeds, by which training chooses the weights to keep, and compares it with the rules of its
// scenario on held-out seeds. A [LogJudge] judges by the requests that a router has logged
// (--from-log), in hindsight and in a replay.
package policies

import (
	"errors"
	"fmt"

	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/router/policy"
)

// Forms is how a policy is referred to.
const Forms = policy.RuleForms + ", store:NAME[@VERSION] or NAME"

// JudgedBy are the workloads that a policy is chosen and judged by.
var JudgedBy = []string{"u1", "u2", "stable"}

// Contestants turns references into the policies of an evaluation. warn gets a note
// about a policy that was trained in another environment.
func Contestants(s *scenario.Scenario, source *Source, refs []string, warn func(string)) ([]evaluation.Contestant, error) {
	var list []evaluation.Contestant
	var faults []error
	for _, ref := range refs {
		c, err := Contestant(s, source, ref, warn)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		list = append(list, c)
	}
	return list, errors.Join(faults...)
}

// Contestant returns the policy that one reference names.
func Contestant(s *scenario.Scenario, source *Source, ref string, warn func(string)) (evaluation.Contestant, error) {
	if IsClairvoyant(ref) {
		return clairvoyantContestant(s, source, ref, warn)
	}
	fleet, err := s.Simulation()
	if err != nil {
		return evaluation.Contestant{}, err
	}
	maker, err := s.Maker(fleet.Table)
	if err != nil {
		return evaluation.Contestant{}, err
	}
	if !policy.IsRule(ref) {
		if stored, ok := source.Rule(ref); ok {
			return Contestant(s, source, stored, warn)
		}
		p, entry, err := source.Stored(ref, maker)
		if err != nil {
			return evaluation.Contestant{}, err
		}
		if entry.Meta.ScenarioHash != s.Hash() {
			warn(fmt.Sprintf("policy %s was trained on another version of the scenario (%s %.12s, here %s %.12s)",
				entry.Ref(), entry.Meta.Scenario, entry.Meta.ScenarioHash, s.Name, s.Hash()))
		}
		aim, err := Objective(entry.Meta)
		if err != nil {
			return evaluation.Contestant{}, fmt.Errorf("cannot evaluate policy %s: %w", entry.Ref(), err)
		}
		spare, err := maker.Parse(policy.Cautious)
		if err != nil { // not of this fleet
			spare, err = maker.Parse(s.BestRuleFor(aim))
		}
		return evaluation.Contestant{Name: p.Name(), Decider: p, Doubted: spare, Fleet: fleet, Objective: aim}, err
	}
	rule, err := maker.Parse(ref)
	if err != nil {
		return evaluation.Contestant{}, err
	}
	if static, ok := rule.(*policy.Static); ok { // alone, with all the memory (LBE-18)
		alone, err := s.Alone(s.Variants[static.Variant()].Name)
		if err != nil {
			return evaluation.Contestant{}, err
		}
		if fleet, err = alone.Simulation(); err != nil {
			return evaluation.Contestant{}, err
		}
	}
	return evaluation.Contestant{Name: rule.Name(), Decider: rule, Fleet: fleet, Rule: true}, nil
}
