package training

import (
	"encoding/json"
	"strings"
	"time"

	"gearshift/checkpoints"
	"gearshift/router/modality"
)

// Checkpoint is the policy as the store keeps it.
func (t *TrainedJobs) Checkpoint(o JobsOptions) (*checkpoints.Checkpoint, error) {
	config, err := json.Marshal(t.Config)
	if err != nil {
		return nil, err
	}
	summary, err := json.Marshal(JobsSummary{Score: t.Score, Plan: t.Plan})
	if err != nil {
		return nil, err
	}
	foresight, err := json.Marshal(t.Cautions)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range o.Models {
		names = append(names, m.Name)
	}
	c := &checkpoints.Checkpoint{Network: t.Weights}
	c.Meta = checkpoints.Meta{
		Scenario: strings.Join(names, ", "), Config: config, Seed: o.Seed, Decisions: o.Decisions,
		AdviceMargin: t.Margin, Seen: t.Seen, Evaluation: summary,
		Jobs: &checkpoints.Jobs{Version: modality.ObservationVersion, Inputs: modality.Observed, Actions: modality.Actions, Foresight: foresight},
	}
	c.Meta.SpecHash = c.Meta.Spec.Hash()
	return c, nil
}

// JobsSummary is what a request is worth in the mean on validation seeds.
type JobsSummary struct {
	Score float64 `json:"score"` // under the policy
	Plan  float64 `json:"plan"`  // under the plan that is its advice
}

// Store stores the policy and returns its reference.
func (t *TrainedJobs) Store(store *checkpoints.Store, name string, o JobsOptions, now time.Time) (checkpoints.Ref, error) {
	c, err := t.Checkpoint(o)
	if err != nil {
		return checkpoints.Ref{}, err
	}
	version, _, err := store.Put(name, c, now)
	return checkpoints.Ref{Name: name, Version: version}, err
}
