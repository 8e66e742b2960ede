package main

import (
	"errors"
	"fmt"
	"strings"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/env/evaluation"
	"gearshift/router/policy"
)

// policyForms is how a policy is referred to.
const policyForms = policy.RuleForms + ", store:NAME[@VERSION] or NAME"

// checkPolicyName refuses a --name that a stored policy cannot have.
func checkPolicyName(name string) error {
	if ref, err := checkpoints.ParseRef(name); err != nil || ref != (checkpoints.Ref{Name: name}) || policy.IsRule(name) {
		return fmt.Errorf("--name %q cannot name a policy: want a-z, 0-9, '.', '_' and '-', and none of the rules' names", name)
	}
	return nil
}

// stored loads the policy that ref names from its source and fits it to the
// maker's fleet, which must have what [observation.Spec.Match] asks of it.
func stored(source *policySource, ref string, m *policy.Maker) (policy.Network, checkpoints.Entry, error) {
	parsed, err := checkpoints.ParseRef(strings.TrimPrefix(ref, "store:"))
	if err != nil {
		return nil, checkpoints.Entry{}, fmt.Errorf("policy %q: %w; want %s", ref, err, policyForms)
	}
	c, entry, err := source.store.Get(parsed)
	if err != nil {
		return nil, entry, err
	}
	network, err := source.values(c.Network)
	if err != nil {
		return nil, entry, fmt.Errorf("cannot load policy %q: %w", entry.Ref().String(), err)
	}
	p, err := m.Network(entry.Ref().String(), c.Meta.Spec, network, c.Meta.Seen)
	return p, entry, err
}

// contestants turns references into the policies of an evaluation. warn is told
// of a policy that was trained in another world.
func contestants(s *scenario.Scenario, source *policySource, refs []string, warn func(string)) ([]evaluation.Contestant, error) {
	var list []evaluation.Contestant
	var faults []error
	for _, ref := range refs {
		c, err := contestant(s, source, ref, warn)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		list = append(list, c)
	}
	return list, errors.Join(faults...)
}

func contestant(s *scenario.Scenario, source *policySource, ref string, warn func(string)) (evaluation.Contestant, error) {
	if isPlanned(ref) {
		return plannedContestant(s, source, ref, warn)
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
		p, entry, err := stored(source, ref, maker)
		if err != nil {
			return evaluation.Contestant{}, err
		}
		if entry.Meta.ScenarioHash != s.Hash() {
			warn(fmt.Sprintf("policy %s was trained on another version of the scenario (%s %.12s, here %s %.12s)",
				entry.Ref(), entry.Meta.Scenario, entry.Meta.ScenarioHash, s.Name, s.Hash()))
		}
		return evaluation.Contestant{Name: p.Name(), Decider: p, Fleet: fleet}, nil
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
