package training

import (
	"math"
	"math/rand/v2"

	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/rl"
	"gearshift/router/observation"
	"gearshift/workloads"
)

// Environment is the simulator as the training loop sees it. An error of the
// simulator is a fault of the program or of the scenario that no action can
// mend; it is kept, and ends the run.
type Environment struct {
	*env.Environment                     // of the present episode
	estimating, knowing *env.Environment // the rate is estimated, or is known
	knownShare          float64          // of the episodes
	places              bool             // actions are replicas, not variants
	marginal            bool             // rewards are; see [rl.Config.MarginalRewards]
	difference          bool             // likewise, [rl.Config.DifferenceRewards]
	credit              *evaluation.Credit
	strata              []int // of the episode's decisions
	completed           []rl.Completion
	err                 error
}

// knownStream is the PCG stream that draws whether an episode's rate is known.
const knownStream = 0x6b6e6f776e

// stratum numbers the bands of the load, which is the true arrival rate times how slow
// the hosts are: four to an octave from 1/16 per second up. The band around 1 per second
// is as wide as two, because the conversion rounds towards zero; stored runs rest on it.
func stratum(load float64) int {
	return max(0, min(rl.Strata-1, int(4*math.Log2(max(load, leastLoad)))+16))
}

// leastLoad is below all bands, and has a logarithm.
const leastLoad = 1e-3

// NewEnvironment returns the scenario's fleet under its training load, endless but
// for the truncation after each episode, with the rewards that c asks for.
func NewEnvironment(s *scenario.Scenario, spec observation.Spec, c *rl.Config) (*Environment, error) {
	load, err := workloads.NewRandomSwitching(s.Training.Load)
	if err != nil {
		return nil, err
	}
	tasks := s.Table().Tasks
	open := func(seed uint64) (workloads.Stream, error) {
		return workloads.New(load, tasks, s.Workload, seed, workloads.Limit{})
	}
	return newEnvironment(s, spec, c, open, s.Training.Load.KnownShare)
}

// newEnvironment returns an environment of training on the streams that open begins.
func newEnvironment(s *scenario.Scenario, spec observation.Spec, c *rl.Config, open func(seed uint64) (workloads.Stream, error), knownShare float64) (*Environment, error) {
	config, err := s.Simulation()
	if err != nil {
		return nil, err
	}
	config.Limit, config.Marginal, config.Difference, config.Open = c.Episode, c.MarginalRewards, c.DifferenceRewards, open
	if err := s.Disturb(&config); err != nil {
		return nil, err
	}
	return NewEnvironmentOn(s, spec, config, knownShare)
}

// NewEnvironmentOn is NewEnvironment on a fleet and load of the caller's. What the
// policy believes of the fleet is the scenario's.
func NewEnvironmentOn(s *scenario.Scenario, spec observation.Spec, config env.Config, knownShare float64) (*Environment, error) {
	maker, err := s.Maker(config.Table)
	if err != nil {
		return nil, err
	}
	if config.Encoder, err = maker.Encoder(spec); err != nil {
		return nil, err
	}
	t := &Environment{
		knownShare: knownShare, places: spec.Places(), marginal: config.Marginal, difference: config.Difference,
		credit: evaluation.NewCredit(s.Training.Objective),
	}
	if t.estimating, err = env.New(config); err != nil {
		return nil, err
	}
	config.KnownRate = true
	t.knowing, err = env.New(config)
	t.Environment = t.estimating
	return t, err
}

// earned returns the reward of the decision on that request.
func (t *Environment) earned(o *env.Outcome) float64 {
	switch {
	case t.difference:
		return o.Marginal - t.View().Table.Tasks[o.Request.Task].Peak()
	case t.marginal:
		return o.Marginal
	}
	return o.Utility
}

// Err returns the error of the simulator, after which nothing more can be asked of it.
func (t *Environment) Err() error { return t.err }

// Reset implements [rl.Env].
func (t *Environment) Reset(seed uint64) []float32 {
	t.Environment = t.estimating
	if rand.New(rand.NewPCG(seed, knownStream)).Float64() < t.knownShare {
		t.Environment = t.knowing
	}
	observation, err := t.Environment.Reset(seed)
	t.strata, t.err = t.strata[:0], err
	t.credit.Reset()
	return observation
}

// available returns the action, or the nearest one that is available where it is not: the one before it first. So an action
// that a fleet cannot take now is worth what another is, and the best of all is one that it can.
func (t *Environment) available(action int) int {
	v, n, is := t.View(), t.Actions(), t.View().VariantAvailable
	if t.places {
		n, is = len(v.Table.Replicas), v.Available
	}
	for d := range n {
		for _, other := range []int{action - d, action + d} {
			if other >= 0 && other < n && is(other) {
				return other
			}
		}
	}
	return action
}

// Step implements [rl.Env].
func (t *Environment) Step(action int) rl.Step {
	t.strata = append(t.strata, stratum(t.Arrival().Rate*t.Simulator().Slowdown()))
	t.credit.Decided(t.View().Table.Tasks[t.Request().Task].Peak())
	route := t.Environment.Step
	if t.places {
		route = t.Place
	}
	step, err := route(t.available(action))
	if err != nil {
		t.err = err
		return rl.Step{}
	}
	t.completed = t.completed[:0]
	for i := range step.Info.Outcomes {
		o := &step.Info.Outcomes[i]
		if o.Decision < 0 { // it was refused, or a job
			continue
		}
		t.credit.Ended(o.Decision, t.earned(o))
	}
	for decision, reward := range t.credit.Known(step.Terminated || step.Truncated) {
		t.completed = append(t.completed, rl.Completion{Decision: decision, Utility: reward, Stratum: t.strata[decision]})
	}
	return rl.Step{
		Observation: step.Observation, Terminated: step.Terminated, Truncated: step.Truncated,
		Elapsed: step.Info.Elapsed, Completed: t.completed,
	}
}
