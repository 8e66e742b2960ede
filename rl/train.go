package rl

import (
	"context"
	"errors"
	"fmt"

	"gearshift/router/nn"
)

// Run is one training run. Its numbers follow from Config, Seed and the parts
// joined here, wherever it is stopped and resumed.
type Run struct {
	Config  Config
	Seed    uint64 // of exploration and sampling; the learner has drawn its weights
	Envs    []Env  // as many as Config.Environments says, for this run alone
	Learner Learner
	Rows    Rows // of the observations; zero where the network sees them whole

	// EpisodeSeed gives the seed of each episode, counted from 0 over all
	// environments.
	EpisodeSeed func(episode uint64) uint64

	// Stop ends the call after that many decisions in all, with the progress saved, like an
	// interruption; the schedules keep to the run's whole length. 0 runs to the end. With
	// several environments the call ends after the round of decisions that reaches it, as
	// with everything that is due after a number of decisions.
	Stop int

	// Validate scores a network, higher is better; it must not keep it. The
	// best-scoring weights are the run's result. Nil: the last weights are.
	Validate func(*nn.MLP) (float64, error)
	// Save stores the progress every CheckpointEvery decisions, at the end,
	// and when interrupted, so its own context must outlive Train's. Nil:
	// nothing is stored.
	Save func(*Progress) error
	// Report is called with how the run goes, every ReportEvery decisions (0: 1000) and at
	// the end. It may be nil.
	Report      func(Report)
	ReportEvery int
}

// Report is how a run goes. Averages are over the recent past, 0 while empty.
type Report struct {
	Decisions, Total int
	GradientSteps    int
	Episode          uint64 // the latest that has begun
	Epsilon          float64
	LearningRate     float64
	Utility          float64 // per completed request
	Loss, TDError    float64
	Validations      int     // made so far
	Score, BestScore float64 // of the last validation, and the best
}

// Result is what a run has come to.
type Result struct {
	Network   *nn.MLP // the best-scoring weights, or the last where nothing is validated
	Score     float64 // of Network; 0 where nothing is validated
	Decisions int
	// Seen is the largest value of each input that the run has met since its
	// exploration ended; nil if it has not, or if there are rows.
	Seen []float32
}

// ErrEnvironment is wrapped by Train when an environment does not keep its
// contract.
var ErrEnvironment = errors.New("the environment broke its contract")

// Train runs r from its beginning, or from where an earlier call of the same run
// saved its progress, until the end, the stop, or an error. When ctx ends, it
// saves and returns ctx's error, or that of saving. The result is what was reached,
// on errors too.
func Train(ctx context.Context, r Run, from *Progress) (Result, error) {
	t, err := newTrainer(r)
	if err != nil {
		return Result{}, fmt.Errorf("cannot train: %w", err)
	}
	if err := t.begin(from); err != nil {
		return Result{}, fmt.Errorf("cannot resume training: %w", err)
	}
	err = t.train(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		if unsaved := t.save(); unsaved != nil {
			err = unsaved
		}
	}
	return t.result(), err
}

// train is the loop: collect, store, learn, log. Several environments step while the
// network learns from what was stored before. With one it learns after storing.
func (t *trainer) train(ctx context.Context) error {
	several := len(t.environments) > 1
	if t.validateDue() { // interrupted in the middle of it
		if err := t.log(); err != nil {
			return err
		}
	}
	for t.p.Decisions < t.stop {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("training interrupted after %d decisions: %w", t.p.Decisions, err)
		}

		// Collect: one decision in each environment, ε-greedy on the online network.
		for _, w := range t.environments {
			t.decide(w)
		}
		if !several {
			t.environments[0].step()
		} else if err := stepAll(t.environments, t.learn); err != nil {
			return err
		}

		// Store: what completed goes into replay, joined to its transition.
		for _, w := range t.environments {
			if err := t.store(w, t.replay); err != nil {
				return err
			}
			if w.over() {
				if err := t.nextEpisode(w); err != nil {
					return err
				}
			}
		}

		if !several {
			if err := t.learn(); err != nil {
				return err
			}
		}

		if err := t.log(); err != nil {
			return err
		}
	}
	return nil
}

// learn takes the gradient steps that follow the latest decisions, one of each environment.
func (t *trainer) learn() error {
	for d := t.p.Decisions - len(t.environments) + 1; d <= t.p.Decisions; d++ {
		if !t.learnDue(d) {
			continue
		}
		if err := t.gradientStep(d); err != nil {
			return err
		}
	}
	return nil
}

// gradientStep is one, after a decision: sample, then descend.
func (t *trainer) gradientStep(decision int) error {
	cfg := &t.run.Config
	t.replay.Sample(t.batch, t.sampling)
	if cfg.Priority != nil {
		t.replay.Weigh(t.batch, cfg.Priority.CorrectionAt(decision, cfg.Decisions))
	}
	if err := t.descend(cfg.LearningRateAt(decision)); err != nil {
		return fmt.Errorf("gradient step %d: %w", t.p.GradientSteps, err)
	}
	if cfg.Priority != nil {
		t.replay.Reprioritise(t.batch)
	}
	return nil
}

// descend learns from the batch: target, learn, average, sync.
func (t *trainer) descend(rate float64) error {
	cfg := &t.run.Config
	t.run.Learner.SetLearningRate(rate)
	stats, err := t.run.Learner.Learn(t.batch) // the target is the learner's
	if err != nil {
		return err
	}
	t.p.GradientSteps++
	t.p.Loss.add(stats.Loss, recentSteps)
	t.p.TDError.add(stats.TDError, recentSteps)
	if t.average != nil {
		averageInto(t.average, t.run.Learner.Act(), cfg.WeightAverage, t.p.GradientSteps)
	}
	if cfg.TargetRate > 0 {
		t.run.Learner.MoveTarget(cfg.TargetRate)
	} else if t.p.GradientSteps%cfg.TargetSync == 0 {
		t.run.Learner.MoveTarget(1)
	}
	return nil
}

// log validates, saves and reports when they are due. Validation comes first, so
// that what is saved knows of it.
func (t *trainer) log() error {
	if t.validateDue() {
		if err := t.validate(); err != nil {
			return err
		}
	}
	done := t.p.Decisions
	if done == t.stop || t.passed(t.run.Config.CheckpointEvery) {
		if err := t.save(); err != nil {
			return err
		}
	}
	if done == t.stop || t.passed(t.reportEvery) {
		t.report()
	}
	return nil
}
