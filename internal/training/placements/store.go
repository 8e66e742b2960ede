package placements

import (
	"context"
	"encoding/json"
	"time"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/internal/training/policies"
	"gearshift/router/placement/layouts"
)

// heldOut is the number of the first of the seeds on which a policy is compared with rules, and which choose nothing.
const heldOut = 1000

// Compare returns what the policy gains over layouts that stay and over the best rule on held-out seeds.
func (t *Trained) Compare(ctx context.Context, o Options) ([]policies.PlacementGain, error) {
	j, err := newJudge(o)
	if err != nil {
		return nil, err
	}
	j.first = heldOut
	own, err := j.gains(ctx, learned(t.Network, t.Margin))
	if err != nil {
		return nil, err
	}
	rule, err := j.gains(ctx, func() (layouts.Rule, error) { return layouts.Parse(t.Best) })
	if err != nil {
		return nil, err
	}
	over, err := evaluation.Paired(own, rule)
	return []policies.PlacementGain{{Over: "layouts that stay", By: evaluation.Bootstrap(own)}, {Over: t.Best, By: over}}, err
}

// Checkpoint returns the policy as the store keeps it, with how it compares.
func (t *Trained) Checkpoint(o Options, gains []policies.PlacementGain) (*checkpoints.Checkpoint, error) {
	config, err := json.Marshal(t.Config)
	if err != nil {
		return nil, err
	}
	summary, err := json.Marshal(gains)
	if err != nil {
		return nil, err
	}
	c := &checkpoints.Checkpoint{Network: t.Network}
	c.Meta = checkpoints.Meta{
		Scenario: o.Scenario.Name, ScenarioHash: o.Scenario.Hash(), Config: config, Seed: o.Seed, Decisions: o.Decisions, Evaluation: summary,
		Placement: &checkpoints.Placement{Version: layouts.EncodingVersion, Inputs: layouts.Shared + layouts.Own, Margin: t.Margin},
	}
	c.Meta.SpecHash = c.Meta.Spec.Hash()
	return c, nil
}

// Store stores the policy and returns its reference.
func (t *Trained) Store(store *checkpoints.Store, name string, o Options, gains []policies.PlacementGain, now time.Time) (checkpoints.Ref, error) {
	c, err := t.Checkpoint(o, gains)
	if err != nil {
		return checkpoints.Ref{}, err
	}
	version, _, err := store.Put(name, c, now)
	return checkpoints.Ref{Name: name, Version: version}, err
}
