package training

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"gearshift/rl"
	"gearshift/rl/dqn"
	"gearshift/router/modality"
	"gearshift/router/nn"
	"gearshift/workloads"
)

// JobsModel is one whose inputs are chosen, as training sees it.
type JobsModel struct {
	Name    string
	Options []modality.Option // with what batches really take
}

// JobsOptions say what is trained.
type JobsOptions struct {
	Models    []JobsModel
	Seed      uint64
	Decisions int
	// Validation is how many episodes choose the plan's cautions and the margin; 0 is 240.
	Validation int
	// Comparisons is on how many episodes of training the plan's cautions are compared; 0 is 2000.
	Comparisons int
	Report      func(rl.Report) // may be nil
}

// TrainedJobs is what a training run comes to.
type TrainedJobs struct {
	modality.Network
	Margin float64 // what a departure from the plan must be worth, per eight requests
	// Score is what a request is worth in the mean on validation seeds, by [jobs.Outcome.Worth],
	// and Plan the same of the plan alone.
	Score, Plan float64
	Config      rl.Config
}

// The usual numbers of episodes.
const usualValidation, usualComparisons = 240, 2000

// jobsConfig is the training preset. Times are in units of the episode's deadline.
func jobsConfig(decisions int) rl.Config {
	return rl.Config{
		Decisions: decisions, Hidden: []int{64, 64}, Batch: 128, TrainEvery: 4,
		LearningRate: 5e-4, FinalLearningRate: 1e-4, FinalShare: 0.3,
		Discount: rl.Discount{TimeConstant: 4}, NStep: 6, NStepTime: 4, TargetRate: 0.005,
		Epsilon: rl.Epsilon{Start: 0.6, End: 0.05, Share: 0.4},
		Replay:  min(decisions, 200_000), Warmup: min(2000, decisions/10), Dueling: true, Environments: 4,
		AdviceMargin: leastMargin, Huber: 1, ClipNorm: 10, CentreRewards: true, WeightAverage: 0.999,
		Episode: 400, ValidateEvery: max(1, decisions/10), CheckpointEvery: decisions,
	}
}

// leastMargin is that of training, per so many requests.
const (
	leastMargin = 0.01
	unit        = 8
)

// TrainJobs trains a policy. The same options make the same policy.
func TrainJobs(ctx context.Context, o JobsOptions) (*TrainedJobs, error) {
	if len(o.Models) == 0 {
		return nil, errors.New("cannot train: there are no models")
	}
	c := jobsConfig(o.Decisions)
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("cannot train: %w", err)
	}
	drawn, err := newJobsSettings(o.Models, cmp.Or(o.Validation, usualValidation))
	if err != nil {
		return nil, err
	}
	cautions, judge, err := drawn.chooseCautions(ctx, o.Seed, cmp.Or(o.Comparisons, usualComparisons))
	if err != nil {
		return nil, err
	}
	learner, err := dqn.New(c, modality.Observed, modality.Actions, rand.New(rl.Weights.PCG(o.Seed)))
	if err != nil {
		return nil, err
	}
	envs := make([]rl.Env, c.Environments)
	adapters := make([]*jobsEnvironment, c.Environments)
	for i := range envs {
		adapters[i] = newJobsEnvironment(drawn, cautions, c.Episode)
		envs[i] = adapters[i]
	}
	result, err := rl.Train(ctx, rl.Run{
		Config: c, Seed: o.Seed, Envs: envs, Learner: learner,
		EpisodeSeed: func(n uint64) uint64 { return workloads.Seed(workloads.Training, o.Seed<<32|n&(1<<32-1)) },
		Validate: func(m *nn.MLP) (float64, error) {
			p, err := drawn.play(ctx, drawn.few, learned(m, c.AdviceMargin, cautions, nil))
			if err != nil {
				return 0, err
			}
			return p.mean(), nil
		},
		Report: o.Report, ReportEvery: max(1, o.Decisions/10),
	}, nil)
	for _, e := range adapters {
		err = errors.Join(err, e.Err())
	}
	if err != nil {
		return nil, err
	}
	plan := judge.plan.mean()
	t := &TrainedJobs{Plan: plan, Score: plan, Config: c, Margin: adviceAlone}
	t.Network = modality.Network{Cautions: cautions, Seen: result.Seen}
	return t, t.choose(ctx, drawn, judge, result.Network)
}

// adviceAlone is a margin that no departure is worth.
const adviceAlone = 100

// choose gives the network the margin that gains most over the plan alone on validation seeds. What it
// gains must be above its standard error, and a request worth more; else the plan stands.
func (t *TrainedJobs) choose(ctx context.Context, w *jobsSettings, j *jobsJudge, network *nn.MLP) error {
	var most float64
	for margin := float64(leastMargin); margin <= 32*leastMargin; margin *= 2 {
		p, err := w.play(ctx, w.many, learned(network, margin, t.Cautions, t.Seen))
		if err != nil {
			return err
		}
		if gain, fault := j.compare(p, j.plan); gain > max(most, fault) && p.mean() > t.Plan {
			most, t.Score, t.Margin = gain, p.mean(), margin
		}
	}
	favoured, err := network.Favouring(float32(t.Margin), modality.Actions)
	t.Weights = favoured
	return err
}

// learned makes the policy of a network that is still being trained.
func learned(network *nn.MLP, margin float64, c modality.Cautions, seen []float32) jobsMaker {
	return func(t *modality.Table) (modality.Policy, error) {
		favoured, err := network.Favouring(float32(margin), modality.Actions)
		if err != nil {
			return nil, err
		}
		return modality.NewLearned(t, modality.Network{Weights: favoured, Cautions: c, Seen: seen})
	}
}
