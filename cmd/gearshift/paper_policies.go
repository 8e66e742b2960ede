//go:build !serveonly

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/scenario"
)

// trained is the policy of that name in the report's store. It is trained if
// the store has none of the same ingredients; an interrupted run goes on.
func (p *paper) trained(ctx context.Context, name string, s *scenario.Scenario, presetName string, seed uint64, from string) (string, error) {
	return p.train(ctx, s, trainOptions{presetName: presetName, name: name, from: from, seed: seed})
}

// train is trained by the options, but for the scenario and the store.
func (p *paper) train(ctx context.Context, s *scenario.Scenario, o trainOptions) (string, error) {
	o.scenario, o.store = p.options.scenario, p.store.Path
	r, err := newTrainingRunOn(o, s)
	if err != nil {
		return "", err
	}
	if entry, ok := p.stored(o.name); ok && sameTraining(entry.Meta, r.meta) {
		return entry.Ref().String(), nil
	}
	r.options.resume = p.interrupted(o.name, r)
	fmt.Fprintf(p.stderr, "training %s (preset %s, seed %d)\n", o.name, o.presetName, o.seed)
	return o.name, r.run(ctx, io.Discard, p.stderr)
}

// stored is the newest version of the name in the report's store.
func (p *paper) stored(name string) (checkpoints.Entry, bool) {
	_, entry, err := p.store.Get(checkpoints.Ref{Name: name})
	return entry, err == nil
}

// interrupted says whether a run of the name, of the same ingredients, waits to
// be continued.
func (p *paper) interrupted(name string, r *trainingRun) bool {
	stored, err := p.store.GetTraining(name)
	if err != nil || stored.Policy.Name != "" {
		return false
	}
	var meta checkpoints.Meta
	return json.Unmarshal(stored.Meta, &meta) == nil && r.matches(meta) == nil
}

// sameTraining says whether two policies come of the same training.
func sameTraining(a, b checkpoints.Meta) bool {
	return a.Scenario == b.Scenario && a.ScenarioHash == b.ScenarioHash && a.SpecHash == b.SpecHash &&
		a.Preset == b.Preset && string(a.Config) == string(b.Config) && a.Seed == b.Seed && cmp.Compare(a.From, b.From) == 0
}
