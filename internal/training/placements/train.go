package placements

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"gearshift/internal/scenario"
	"gearshift/rl"
	"gearshift/rl/dqn"
	"gearshift/router/nn"
	"gearshift/router/placement/layouts"
	"gearshift/workloads"
)

// Options say what is trained.
type Options struct {
	Scenario  *scenario.Scenario
	Laws      []Law // of episodes; none is the scenario's own
	Seed      uint64
	Decisions int
	// Validation counts the episodes that choose the network and its margin; 0 is 20.
	Validation int
	Report     func(rl.Report) // may be nil
}

// The usual numbers: decisions that a policy learns from, those of a first look, and episodes.
const (
	Usual, Quick    = 200_000, 40_000
	usualValidation = 20
)

// Length is the duration of an episode.
const Length = 10 * time.Minute

// knownShare is the share of the episodes in which the rate is known, as in steady loads.
const knownShare = 0.3

// Trained holds the result of a run.
type Trained struct {
	Network *nn.MLP
	Margin  float64 // what a change must be worth
	// Score compares the policy, and Rule the best rule, with layouts that stay, on validation seeds: the gain
	// per second, in shares of a request's utility; see [evenness].
	Score, Rule float64
	Best        string // of the rules
	Config      rl.Config
}

// config returns the training preset.
func config(decisions int) rl.Config {
	return rl.Config{
		Decisions: decisions, Hidden: []int{64, 64}, Batch: 128, TrainEvery: 4,
		LearningRate: 1e-3, FinalLearningRate: 1e-4, FinalShare: 0.4,
		Discount: rl.Discount{TimeConstant: 60}, NStep: 8, NStepTime: 30, TargetRate: 0.005,
		Epsilon: rl.Epsilon{Start: 0.3, End: 0.03, Share: 0.5},
		Replay:  min(decisions, 200_000), Warmup: min(1000, decisions/10), Environments: 4,
		Huber: 1, ClipNorm: 10, WeightAverage: 0.999,
		Episode: 1 << 20, ValidateEvery: max(1, decisions/6), CheckpointEvery: decisions,
	}
}

// Train trains a policy. The same options make the same policy.
func Train(ctx context.Context, o Options) (*Trained, error) {
	c := config(o.Decisions)
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("cannot train: %w", err)
	}
	j, err := newJudge(o)
	if err != nil {
		return nil, err
	}
	envs := make([]rl.Env, c.Environments)
	adapters := make([]*environment, c.Environments)
	for i := range envs {
		if adapters[i], err = o.environment(); err != nil {
			return nil, err
		}
		envs[i] = adapters[i]
	}
	seed := func(n uint64) uint64 { return workloads.Seed(workloads.Training, o.Seed<<32|n&(1<<32-1)) }
	adapters[0].Reset(seed(0)) // which shows how many rows there are
	if adapters[0].err != nil {
		return nil, fmt.Errorf("cannot train: %w", adapters[0].err)
	}
	rows := rl.Rows{Shared: layouts.Shared, Own: layouts.Own, Count: adapters[0].encoder.Rows()}
	learner, err := dqn.NewRows(c, rows, rand.New(rl.Weights.PCG(o.Seed)))
	if err != nil {
		return nil, err
	}
	result, err := rl.Train(ctx, rl.Run{
		Config: c, Seed: o.Seed, Envs: envs, Learner: learner, Rows: rows, EpisodeSeed: seed,
		Validate: func(m *nn.MLP) (float64, error) { return j.score(ctx, learned(m, 0)) },
		Report:   o.Report, ReportEvery: max(1, o.Decisions/12),
	}, nil)
	for _, e := range adapters {
		if e.stop != nil {
			e.stop()
		}
		err = errors.Join(err, e.err)
	}
	if err != nil {
		return nil, err
	}
	t := &Trained{Network: result.Network, Config: c}
	return t, t.choose(ctx, j)
}

// environment makes one for a learner.
func (o *Options) environment() (*environment, error) {
	s := o.Scenario
	e := &environment{loads: newLoads(s), known: knownShare}
	for _, on := range o.scenarios() {
		var pair [2]*simulation
		for k := range pair {
			w, err := newSimulation(on, e.loads, k == 1)
			if err != nil {
				return nil, err
			}
			pair[k] = w
		}
		e.simulations = append(e.simulations, pair)
	}
	return e, nil
}

// scenarios returns the scenario under each law.
func (o *Options) scenarios() []*scenario.Scenario {
	if len(o.Laws) == 0 {
		return []*scenario.Scenario{o.Scenario}
	}
	var list []*scenario.Scenario
	for i := range o.Laws {
		list = append(list, o.Laws[i].On(o.Scenario))
	}
	return list
}

func newLoads(s *scenario.Scenario) *loads {
	l := &s.Training.Load
	return &loads{least: l.MinRate, most: l.MaxRate, length: Length}
}

// margins are those among which validation chooses.
var margins = []float64{0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4}

// rules are those that a policy has to beat.
var rules = []string{
	"worth:0.003,10,10,1.2", "worth:0.002,4,5,1.2", "worth:0.006,10,20,1.2", "worth:0.003,30,30,1.2", "worth:0.003,30,60,1.5",
	"bands:0.3,0.27,20,10", "bands:0.3,0.2,60,30", "bands:0.4,0.3,30,10",
}

// choose gives the network its margin, and compares it with the best rule.
func (t *Trained) choose(ctx context.Context, j *judge) error {
	for i, margin := range margins {
		score, err := j.score(ctx, learned(t.Network, margin))
		if err != nil {
			return err
		}
		if i == 0 || score > t.Score {
			t.Score, t.Margin = score, margin
		}
	}
	for _, text := range rules {
		score, err := j.score(ctx, func() (layouts.Rule, error) { return layouts.Parse(text) })
		if err != nil {
			return err
		}
		if t.Best == "" || score > t.Rule {
			t.Rule, t.Best = score, text
		}
	}
	return nil
}

// maker makes a chooser for an episode.
type maker func() (layouts.Rule, error)

func learned(m *nn.MLP, margin float64) maker {
	m = m.Clone()
	return func() (layouts.Rule, error) {
		l, err := layouts.NewLearned(m, margin)
		if err != nil {
			return layouts.Rule{}, err
		}
		return l.Rule(), nil
	}
}

// validation returns how many episodes validate.
func (o *Options) validation() int { return cmp.Or(o.Validation, usualValidation) }
