//go:build !serveonly

package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"gearshift/cmd/gearshift/output"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/cmd/gearshift/scenarioedit"
	"gearshift/env/evaluation"
)

// tuneSeeds are the runs of a point of the search: with few of a workload as unsteady
// as u1, luck chooses the rule.
const tuneSeeds = 16

// tuneRules searches for the best parameters of each rule on the measured profiles,
// and has the scenario name what it found: those are the rules to beat, and the
// best of them is what a policy that takes advice departs from. They are for mean utility, as
// evaluation.rules are, whatever the scenario's training.objective.
func (c *calibration) tuneRules(ctx context.Context) error {
	measured, tuned := c.at("measured.yaml"), c.at("scenario.yaml")
	if c.trials == 0 {
		text, err := os.ReadFile(measured)
		if err != nil {
			return err
		}
		return output.Install(tuned, text, true)
	}
	args := []string{"eval", "--tune", "--tune-for", "utility", "--tune-trials", fmt.Sprint(c.trials), "--tune-seeds", fmt.Sprint(tuneSeeds), "--scenario", measured, "--workload", c.workload, "--seeds", "1", "--out", c.at("tune")}
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
		text, err = scenarioedit.Rules(measured, found.Best)
	}
	if err != nil {
		return err
	}
	return output.Install(tuned, text, true)
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
