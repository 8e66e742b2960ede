package training

import (
	"cmp"
	"fmt"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/policies"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/env/objective"
)

// aimed returns the scenario with the objective of the options, if they have one.
func (o *Options) aimed(s *scenario.Scenario) *scenario.Scenario {
	if o.Objective == nil {
		return s
	}
	aimed := *s
	aimed.Training.Objective = *o.Objective
	return &aimed
}

// keepObjective takes over the objective of the policy that a log fine-tunes: its weights
// are values by that, which a log is too short to learn once more.
func (o *Options) keepObjective(ref string, start checkpoints.Meta) error {
	own, err := policies.Objective(start)
	switch {
	case err != nil:
		return fmt.Errorf("--from %q: cannot fine-tune %s: %w", o.From, ref, err)
	case o.Objective != nil && *o.Objective != own:
		return fmt.Errorf("--objective %s: %s was trained for %s, and a log fine-tunes a policy for its own objective; leave the flag out, or train without --from-log", o.Objective, ref, own)
	}
	o.Objective = &own
	return nil
}

// rewardable refuses marginal rewards by another objective than utility: what the others on
// a host lose is known in utility alone.
func rewardable(name string, p scenario.Preset, by objective.Objective) error {
	if !p.MarginalRewards || by == objective.Utility {
		return nil
	}
	return fmt.Errorf("training.presets.%s.marginal_rewards is true and training.objective, or --objective, is %s: marginal rewards are of utility; want marginal_rewards: false, or the objective utility", name, by)
}

// objectiveOf is what a stored policy or run was trained for, in a word.
func objectiveOf(m checkpoints.Meta) string {
	return cmp.Or(m.Objective, objective.Utility.String())
}

// goal says in a sentence what the run trains for, unless that is utility.
func (r *run) goal() string {
	if r.meta.Objective == "" {
		return ""
	}
	return ", for " + r.meta.Objective
}
