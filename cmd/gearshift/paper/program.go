package paper

import (
	"context"

	"gearshift/cmd/gearshift/scenario"
)

// Program is what a report takes of the program that writes it.
type Program struct {
	Version string
	// Train stores the policy, unless one of the same ingredients is stored, and
	// returns its reference.
	Train func(context.Context, Training) (ref string, err error)
	// Counting counts what is being done for whoever watches; it may return nil.
	Counting func(what string) func(done, total int)
}

// Training is the policy that a report wants.
type Training struct {
	Scenario           string             // by its name or file
	On                 *scenario.Scenario // which need not be that file's
	Store              string             // file
	Preset, Name, From string
	Seed               uint64
	Uncompared         bool // without the comparison with the rules
}

// trained is the policy of that name in the report's store.
func (p *paper) trained(ctx context.Context, name string, s *scenario.Scenario, preset string, seed uint64, from string) (string, error) {
	return p.train(ctx, Training{On: s, Preset: preset, Name: name, From: from, Seed: seed})
}

// train has the policy trained, but for the scenario's name and the store, which are
// the report's.
func (p *paper) train(ctx context.Context, t Training) (string, error) {
	t.Scenario, t.Store = p.options.Scenario, p.store.Path
	return p.program.Train(ctx, t)
}
