package placements

import (
	"encoding/json"
	"time"

	"gearshift/checkpoints"
	"gearshift/internal/training/policies"
	"gearshift/router/nn"
	"gearshift/router/placement/layouts"
)

// Store stores a policy with how it compares, and returns its reference.
func Store(store *checkpoints.Store, name string, network *nn.MLP, o Options, gains []policies.PlacementGain, now time.Time) (checkpoints.Ref, error) {
	summary, err := json.Marshal(gains)
	if err != nil {
		return checkpoints.Ref{}, err
	}
	c := &checkpoints.Checkpoint{Network: network}
	c.Meta = checkpoints.Meta{
		Scenario: o.Scenario.Name, ScenarioHash: o.Scenario.Hash(), Seed: o.Seed, Decisions: o.Episodes, Evaluation: summary,
		Placement: &checkpoints.Placement{Version: layouts.LearnedVersion, Inputs: layouts.LearnedInputs, Outputs: layouts.LearnedOutputs},
	}
	c.Meta.SpecHash = c.Meta.Spec.Hash()
	version, _, err := store.Put(name, c, now)
	return checkpoints.Ref{Name: name, Version: version}, err
}
