//go:build !serveonly

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"

	"gearshift/cmd/gearshift/output"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/env/evaluation"
	"gearshift/router/observation"
)

// tuneSeeds are the runs of a point of the search: with few of a workload as unsteady
// as u1, luck chooses the rule.
const tuneSeeds = 16

// tuneRules searches for the best parameters of each rule on the measured profiles,
// and has the scenario name what it found: those are the rules to beat, and the
// best of them is what a policy that takes advice departs from.
func (c *calibration) tuneRules(ctx context.Context) error {
	measured, tuned := c.at("measured.yaml"), c.at("scenario.yaml")
	if c.trials == 0 {
		text, err := os.ReadFile(measured)
		if err != nil {
			return err
		}
		return output.Install(tuned, text, true)
	}
	args := []string{"eval", "--tune", "--tune-trials", fmt.Sprint(c.trials), "--tune-seeds", fmt.Sprint(tuneSeeds), "--scenario", measured, "--workload", c.workload, "--seeds", "1", "--out", c.at("tune")}
	if c.requests > 0 {
		args = append(args, "--requests", fmt.Sprint(c.requests))
	}
	if err := c.command(ctx, c.stdout, args...); err != nil {
		return err
	}
	var found evaluation.TuningReport
	text, err := os.ReadFile(c.at("tune/tune.json"))
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	if err == nil {
		text, err = withRules(measured, found.Best)
	}
	if err != nil {
		return err
	}
	return output.Install(tuned, text, true)
}

// withRules is a scenario's text with the rules in place of those that it names.
func withRules(path string, best []evaluation.Best) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil || len(best) == 0 {
		return text, err
	}
	var rules []*yaml.Node
	for _, b := range best {
		rules = append(rules, &yaml.Node{Kind: yaml.ScalarNode, Value: b.Policy})
	}
	root := doc.Content[0]
	list := valueAt(valueAt(root, "evaluation", yaml.MappingNode), "rules", yaml.SequenceNode)
	*list = yaml.Node{Kind: yaml.SequenceNode, Content: rules}
	features := valueAt(valueAt(root, "training", yaml.MappingNode), "observation", yaml.SequenceNode).Content
	if len(features) > 0 && valueAt(features[0], "kind", yaml.ScalarNode).Value == string(observation.Advice) {
		first := slices.MaxFunc(best, func(a, b evaluation.Best) int { return cmp.Compare(a.Score, b.Score) })
		*valueAt(features[0], "rule", yaml.ScalarNode) = yaml.Node{Kind: yaml.ScalarNode, Value: first.Policy}
	}
	return editedScenario(&doc, path+" with tuned rules")
}

// rules are those that the scenario names, once they are tuned.
func (c *calibration) rules() []string {
	s := c.scenario
	if tuned, err := scenario.Load(c.at("scenario.yaml")); err == nil {
		s = tuned
	}
	if len(s.Evaluation.Rules) == 0 {
		return []string{"threshold", "slackfit"}
	}
	return s.Evaluation.Rules
}
