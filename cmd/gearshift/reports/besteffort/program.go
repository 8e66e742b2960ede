package besteffort

import (
	"context"

	"gearshift/cmd/gearshift/reports"
	"gearshift/cmd/gearshift/scenario"
)

// trained is the policy of that name in the report's store.
func (p *paper) trained(ctx context.Context, name string, s *scenario.Scenario, preset string, seed uint64, from string) (string, error) {
	return p.train(ctx, reports.Training{On: s, Preset: preset, Name: name, From: from, Seed: seed})
}

// train has the policy trained, except for the scenario's name and the store, which are
// the report's.
func (p *paper) train(ctx context.Context, t reports.Training) (string, error) {
	t.Scenario, t.Store = p.options.Scenario, p.store.Path
	return p.program.Train(ctx, t)
}
