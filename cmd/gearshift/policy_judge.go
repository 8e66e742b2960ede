//go:build !serveonly

package main

import (
	"context"
	"encoding/json"
	"io"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/policies"
	"gearshift/cmd/gearshift/scenario"
)

// evaluateImported is the evaluation of a policy that no training of this
// program ended with: like a trained one's, with the comparison with the rules.
func evaluateImported(ctx context.Context, s *scenario.Scenario, c *checkpoints.Checkpoint, stderr io.Writer) (json.RawMessage, error) {
	j, err := newJudge(s, c.Meta.Spec)
	if err != nil {
		return nil, err
	}
	j.plan.Progress = counting(stderr, "evaluating")
	return j.summary(ctx, c.Network, policies.Trust(c.Meta), true)
}
