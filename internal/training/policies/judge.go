package policies

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/router/nn"
	"gearshift/router/observation"
	"gearshift/router/policy"
	"gearshift/workloads"
)

// Judge scores networks on validation seeds, by which training chooses the
// weights to keep. Evaluation seeds are of another domain and stay unseen.
type Judge struct {
	// Progress, if not nil, is called with the number of runs that are done.
	Progress func(done, total int)

	spec      observation.Spec
	objective evaluation.Objective
	fleet     env.Config
	maker     *policy.Maker
	plan      evaluation.Plan
	rules     []evaluation.Contestant
	heldOut   []evaluation.Workload // what the comparison with rules is on
	seeds     int                   // of the comparison with rules
	closer    int                   // of a closer validation
	blocks    bool                  // seeds are blocks of recorded requests
}

// validationSeeds is how many runs of each workload a validation takes. A validation takes
// closerSeeds runs to compare networks that are nearly as good.
const (
	validationSeeds = 4
	closerSeeds     = 8
)

// NewJudge makes the judge of policies for the scenario whose observations are of the Spec. It
// returns an error if the scenario leaves it nothing to judge by.
func NewJudge(s *scenario.Scenario, spec observation.Spec) (*Judge, error) {
	return NewJudgeOn(s, spec, nil)
}

// NewJudgeOn returns a judge by recorded traffic; nil traffic is [NewJudge].
func NewJudgeOn(s *scenario.Scenario, spec observation.Spec, on *Traffic) (*Judge, error) {
	j := &Judge{spec: spec, objective: s.Training.Objective, plan: evaluation.Plan{Objectives: evaluation.Beside(s.Training.Objective)}}
	if err := j.judgeOn(s, on); err != nil {
		return nil, err
	}
	var err error
	if j.fleet, err = s.Simulation(); err != nil {
		return nil, err
	}
	if j.maker, err = s.Maker(j.fleet.Table); err != nil {
		return nil, err
	}
	j.rules, err = Opponents(s, s.Training.Objective)
	return j, err
}

// judgeOn sets the workloads of validation and of the comparison with rules.
func (j *Judge) judgeOn(s *scenario.Scenario, on *Traffic) error {
	if on != nil {
		j.plan.Workloads = []evaluation.Workload{on.blocks(on.validation, on.Meta.Name, validationBlocks)}
		j.plan.Seeds, j.closer = workloads.Seeds(workloads.Validation, validationBlocks), validationBlocks
		held, blocks := on.HeldOut()
		j.heldOut, j.seeds, j.blocks = []evaluation.Workload{held}, blocks, true
		return nil
	}
	list, err := s.Evaluated(JudgedBy, s.Evaluation.Requests)
	if err != nil {
		return err
	}
	j.plan.Workloads, j.plan.Seeds, j.closer = list, workloads.Seeds(workloads.Validation, validationSeeds), closerSeeds
	j.heldOut, j.seeds = list, HeldOutSeeds
	for _, seeds := range [][]uint64{j.plan.Seeds, workloads.Seeds(workloads.Evaluation, HeldOutSeeds)} {
		if err := anyRequests(list, seeds); err != nil {
			return err
		}
	}
	return nil
}

// Closer returns a judge like j that validates on more seeds.
func (j *Judge) Closer() *Judge {
	c := *j
	c.plan.Seeds = workloads.Seeds(workloads.Validation, j.closer)
	return &c
}

// On returns a judge like j whose engines are those of the fleet.
func (j *Judge) On(fleet env.Config) *Judge {
	c := *j
	c.fleet = fleet
	return &c
}

// Policy returns the greedy policy of a network.
func (j *Judge) Policy(name string, network *nn.MLP, trust policy.Trust) (policy.Network, error) {
	return j.maker.Network(name, j.spec, network, trust)
}

// anyRequests returns an error if a workload has no request under any of the seeds that it
// will be judged on. It is called before hours of training, not after them.
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

// headline keeps the rows of whole workloads. It drops those of single rates of a sweep.
func (j *Judge) headline(results []evaluation.Result, o evaluation.Objective) map[string]float64 {
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

// Score returns the mean over the workloads, with equal weights, of their values
// by the scenario's objective.
func (j *Judge) Score(ctx context.Context, network *nn.MLP, trust policy.Trust) (float64, error) {
	results, err := j.play(ctx, network, trust)
	if err != nil {
		return 0, err
	}
	var sum float64
	rows := j.headline(results, j.objective)
	for _, w := range evaluation.Headlines(j.plan.Workloads) {
		sum += rows[w]
	}
	return sum / float64(len(rows)), nil
}

// Runs returns the values whose mean is Score, by seed.
func (j *Judge) Runs(ctx context.Context, network *nn.MLP, trust policy.Trust) ([]float64, error) {
	results, err := j.play(ctx, network, trust)
	if err != nil {
		return nil, err
	}
	return evaluation.Scores(results, evaluation.Headlines(j.plan.Workloads), j.objective)[0].Runs, nil
}

// HeldOutSeeds is how many runs of each workload the comparison with rules takes.
const HeldOutSeeds = 10

// Summary returns the evaluation that a checkpoint carries, as JSON of an [Evaluation], with the
// comparison with the rules if compared.
func (j *Judge) Summary(ctx context.Context, network *nn.MLP, trust policy.Trust, compared bool) (json.RawMessage, error) {
	results, err := j.play(ctx, network, trust)
	if err != nil {
		return nil, fmt.Errorf("cannot evaluate the policy: %w", err)
	}
	s := Evaluation{Seeds: len(j.plan.Seeds), Utility: j.headline(results, evaluation.MeanUtility), Objective: j.objective}
	if !j.objective.IsZero() {
		s.Values = j.headline(results, j.objective)
	}
	if compared {
		if s.HeldOut, err = j.compare(ctx, network, trust); err != nil {
			return nil, fmt.Errorf("cannot evaluate the policy: %w", err)
		}
	}
	return json.Marshal(s)
}

// compare plays the policy and the scenario's rules on held-out seeds: those of evaluations,
// which neither training nor the choice of weights sees.
func (j *Judge) compare(ctx context.Context, network *nn.MLP, trust policy.Trust) (HeldOut, error) {
	p, err := j.Policy("policy", network, trust)
	if err != nil {
		return HeldOut{}, err
	}
	plan := j.plan
	plan.Progress = j.Progress
	plan.Workloads, plan.Seeds = j.heldOut, workloads.Seeds(workloads.Evaluation, j.seeds)
	plan.Contestants = append([]evaluation.Contestant{{Name: p.Name(), Decider: p, Fleet: j.fleet}}, j.rules...)
	results, err := plan.Evaluate(ctx)
	if err != nil {
		return HeldOut{}, err
	}
	names := evaluation.Headlines(j.heldOut)
	h, err := compareHeldOut(results, names, j.seeds, j.objective)
	if j.blocks {
		h.Recorded = names
	}
	return h, err
}

// OpponentRefs returns references to the rules that a policy of the scenario must beat, in
// training, in an evaluation and to be promoted: those that the scenario lists for what the
// policy was trained for, the one that would route in its place, the plain ones, and each static size.
func OpponentRefs(s *scenario.Scenario, o evaluation.Objective) []string {
	refs := s.RulesFor(o)
	if !o.IsZero() { // whose advice policies follow
		refs = append(refs, s.BestRuleFor(o))
	} else if !slices.Contains(refs, s.Serving.Fallback) {
		refs = append(refs, s.Serving.Fallback)
	}
	for _, v := range s.Variants {
		refs = append(refs, "static:"+v.Name)
	}
	return append(refs, "threshold", "slackfit")
}

// Opponents returns the rules of [OpponentRefs]. A rule that is listed in two ways is there once.
func Opponents(s *scenario.Scenario, o evaluation.Objective) ([]evaluation.Contestant, error) {
	rules, err := Contestants(s, nil, OpponentRefs(s, o), nil)
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
