//go:build !serveonly

package main

import (
	"context"
	"encoding/json"
	"fmt"

	"gearshift/cmd/gearshift/scenario"
	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/router/nn"
	"gearshift/router/observation"
	"gearshift/router/policy"
	"gearshift/workloads"
)

// judge scores networks on validation seeds, by which training chooses the
// weights to keep. Evaluation seeds are of another domain and stay unseen.
type judge struct {
	spec  observation.Spec
	fleet env.Config
	plan  evaluation.Plan
}

// validationSeeds is how many runs of each workload a validation takes.
const validationSeeds = 4

func newJudge(s *scenario.Scenario, spec observation.Spec) (*judge, error) {
	list, err := evaluated(s, []string{"u1", "u2", "stable"}, s.Evaluation.Requests)
	if err != nil {
		return nil, err
	}
	fleet, err := simulation(s)
	if err != nil {
		return nil, err
	}
	return &judge{spec: spec, fleet: fleet, plan: evaluation.Plan{
		Workloads: list, Seeds: seeds(workloads.Validation, validationSeeds),
	}}, nil
}

// play evaluates the greedy policy of a network. The groups' rows follow those
// of their members.
func (j *judge) play(ctx context.Context, network *nn.MLP) ([]evaluation.Result, error) {
	p, err := policy.NewLearned("candidate", j.spec, network, j.fleet.Table)
	if err != nil {
		return nil, err
	}
	plan := j.plan
	plan.Contestants = []evaluation.Contestant{{Name: p.Name(), Decider: p, Fleet: j.fleet}}
	return plan.Evaluate(ctx)
}

// headline keeps the rows that stand for whole workloads: not the single rates
// of a sweep.
func (j *judge) headline(results []evaluation.Result) map[string]float64 {
	single := map[string]bool{}
	for _, w := range j.plan.Workloads {
		single[w.Name] = w.Group != ""
	}
	utility := map[string]float64{}
	for _, r := range results {
		if !single[r.Workload] {
			utility[r.Workload] = r.Utility.Mean
		}
	}
	return utility
}

// score is the mean utility over U1, U2 and the stable sweep, each weighing the
// same.
func (j *judge) score(ctx context.Context) func(*nn.MLP) (float64, error) {
	return func(network *nn.MLP) (float64, error) {
		results, err := j.play(ctx, network)
		if err != nil {
			return 0, err
		}
		var sum float64
		rows := j.headline(results)
		for _, w := range []string{"u1", "u2", "stable"} {
			sum += rows[w]
		}
		return sum / float64(len(rows)), nil
	}
}

// summary is the evaluation that a checkpoint carries.
func (j *judge) summary(network *nn.MLP) (json.RawMessage, error) {
	results, err := j.play(context.Background(), network)
	if err != nil {
		return nil, fmt.Errorf("cannot evaluate the trained policy: %w", err)
	}
	return json.Marshal(struct {
		On      string             `json:"on"`
		Seeds   int                `json:"seeds"`
		Utility map[string]float64 `json:"utility"`
	}{"validation seeds", validationSeeds, j.headline(results)})
}
