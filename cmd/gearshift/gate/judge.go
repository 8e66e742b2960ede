// Package gate says how well a policy does: on validation seeds, by which training
// chooses what to keep, and on held-out seeds beside the rules of its scenario, by which it may
// go into production or not.
package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"gearshift/cmd/gearshift/policies"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/env/objective"
	"gearshift/router/nn"
	"gearshift/router/observation"
	"gearshift/router/policy"
	"gearshift/workloads"
)

// Judge scores networks on validation seeds, by which training chooses the
// weights to keep. Evaluation seeds are of another domain and stay unseen.
type Judge struct {
	// Progress, if not nil, is told of the runs that are done.
	Progress func(done, total int)

	spec      observation.Spec
	objective objective.Objective
	fleet     env.Config
	maker     *policy.Maker
	plan      evaluation.Plan
	rules     []evaluation.Contestant
}

// validationSeeds is how many runs of each workload a validation takes, and
// closerSeeds one that tells what is nearly the same apart.
const (
	validationSeeds = 4
	closerSeeds     = 8
)

// New makes the judge of policies for the scenario whose observations are of the Spec. It
// returns an error if the scenario leaves it nothing to judge by.
func New(s *scenario.Scenario, spec observation.Spec) (*Judge, error) {
	list, err := s.Evaluated(policies.JudgedBy, s.Evaluation.Requests)
	if err != nil {
		return nil, err
	}
	validation := workloads.Seeds(workloads.Validation, validationSeeds)
	for _, seeds := range [][]uint64{validation, workloads.Seeds(workloads.Evaluation, HeldOutSeeds)} {
		if err := anyRequests(list, seeds); err != nil {
			return nil, err
		}
	}
	fleet, err := s.Simulation()
	if err != nil {
		return nil, err
	}
	maker, err := s.Maker(fleet.Table)
	if err != nil {
		return nil, err
	}
	rules, err := Opponents(s, s.Training.Objective)
	if err != nil {
		return nil, err
	}
	return &Judge{spec: spec, objective: s.Training.Objective, fleet: fleet, maker: maker, rules: rules, plan: evaluation.Plan{
		Workloads: list, Seeds: validation, Objectives: evaluation.Beside(s.Training.Objective),
	}}, nil
}

// Closer is j on more seeds.
func (j *Judge) Closer() *Judge {
	c := *j
	c.plan.Seeds = workloads.Seeds(workloads.Validation, closerSeeds)
	return &c
}

// On is j where the engines are those of a fleet.
func (j *Judge) On(fleet env.Config) *Judge {
	c := *j
	c.fleet = fleet
	return &c
}

// Policy is the greedy policy of a network.
func (j *Judge) Policy(name string, network *nn.MLP, trust policy.Trust) (policy.Network, error) {
	return j.maker.Network(name, j.spec, network, trust)
}

// anyRequests says so now, not after hours of training, if a workload has no request
// under any of the seeds that it will be judged on.
func anyRequests(list []evaluation.Workload, seeds []uint64) error {
	for _, w := range list {
		came := false
		for _, seed := range seeds {
			stream, err := w.Open(seed)
			if err != nil {
				return err
			}
			if _, came = stream.Next(); came {
				break
			}
		}
		if !came {
			return fmt.Errorf("cannot judge policies on %s: no request comes in any of its %d runs; want a higher rate in evaluation.stable_rates or a longer evaluation.phase_s", w.Name, len(seeds))
		}
	}
	return nil
}

// play evaluates the greedy policy of a network. The groups' rows follow those
// of their members.
func (j *Judge) play(ctx context.Context, network *nn.MLP, trust policy.Trust) ([]evaluation.Result, error) {
	p, err := j.Policy("candidate", network, trust)
	if err != nil {
		return nil, err
	}
	plan := j.plan
	plan.Progress = j.Progress
	plan.Contestants = []evaluation.Contestant{{Name: p.Name(), Decider: p, Fleet: j.fleet}}
	return plan.Evaluate(ctx)
}

// headline keeps the rows that stand for whole workloads: not the single rates
// of a sweep.
func (j *Judge) headline(results []evaluation.Result, o objective.Objective) map[string]float64 {
	single := map[string]bool{}
	for _, w := range j.plan.Workloads {
		single[w.Name] = w.Group != ""
	}
	means := map[string]float64{}
	for _, r := range results {
		if !single[r.Workload] {
			means[r.Workload] = r.By(o).Value.Mean
		}
	}
	return means
}

// Score is the mean over U1, U2 and the stable sweep, each weighing the same, of what the
// scenario's objective says that they are worth.
func (j *Judge) Score(ctx context.Context, network *nn.MLP, trust policy.Trust) (float64, error) {
	results, err := j.play(ctx, network, trust)
	if err != nil {
		return 0, err
	}
	var sum float64
	rows := j.headline(results, j.objective)
	for _, w := range policies.JudgedBy {
		sum += rows[w]
	}
	return sum / float64(len(rows)), nil
}

// Runs is what Score is the mean of, by seed.
func (j *Judge) Runs(ctx context.Context, network *nn.MLP, trust policy.Trust) ([]float64, error) {
	results, err := j.play(ctx, network, trust)
	if err != nil {
		return nil, err
	}
	return evaluation.Scores(results, policies.JudgedBy, j.objective)[0].Runs, nil
}

// HeldOutSeeds is how many runs of each workload the comparison with rules takes.
const HeldOutSeeds = 10

// Summary is the evaluation that a checkpoint carries, with the comparison with
// the rules or without it.
func (j *Judge) Summary(ctx context.Context, network *nn.MLP, trust policy.Trust, compared bool) (json.RawMessage, error) {
	results, err := j.play(ctx, network, trust)
	if err != nil {
		return nil, fmt.Errorf("cannot evaluate the policy: %w", err)
	}
	s := Standing{Seeds: validationSeeds, Utility: j.headline(results, objective.Utility), Objective: j.objective}
	if !j.objective.IsZero() {
		s.Values = j.headline(results, j.objective)
	}
	if compared {
		if s.HeldOut, err = j.besideRules(ctx, network, trust); err != nil {
			return nil, fmt.Errorf("cannot evaluate the policy: %w", err)
		}
	}
	return json.Marshal(s)
}

// besideRules plays the policy and the scenario's rules on held-out seeds: the
// evaluation's, which training and the choice of weights never see.
func (j *Judge) besideRules(ctx context.Context, network *nn.MLP, trust policy.Trust) (HeldOut, error) {
	p, err := j.Policy("policy", network, trust)
	if err != nil {
		return HeldOut{}, err
	}
	plan := j.plan
	plan.Progress = j.Progress
	plan.Seeds = workloads.Seeds(workloads.Evaluation, HeldOutSeeds)
	plan.Contestants = append([]evaluation.Contestant{{Name: p.Name(), Decider: p, Fleet: j.fleet}}, j.rules...)
	results, err := plan.Evaluate(ctx)
	if err != nil {
		return HeldOut{}, err
	}
	return compareHeldOut(results, policies.JudgedBy, HeldOutSeeds, j.objective)
}

// OpponentRefs are references to the rules that a policy of the scenario must beat, in
// training, in an evaluation and to be promoted: those that the scenario lists for what the
// policy was trained for, the plain ones, and each static size.
func OpponentRefs(s *scenario.Scenario, o objective.Objective) []string {
	refs := s.RulesFor(o)
	if !o.IsZero() { // whose advice policies follow
		refs = append(refs, s.BestRuleFor(o))
	}
	for _, v := range s.Variants {
		refs = append(refs, "static:"+v.Name)
	}
	return append(refs, "threshold", "slackfit")
}

// Opponents are the rules of [OpponentRefs]. One that is listed in two ways is there once.
func Opponents(s *scenario.Scenario, o objective.Objective) ([]evaluation.Contestant, error) {
	rules, err := policies.Contestants(s, nil, OpponentRefs(s, o), nil)
	if err != nil {
		return nil, err
	}
	listed := map[string]bool{}
	return slices.DeleteFunc(rules, func(c evaluation.Contestant) bool {
		again := listed[c.Name]
		listed[c.Name] = true
		return again
	}), nil
}
