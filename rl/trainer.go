package rl

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"gearshift/router/nn"
)

// The averages of reports cover about so many of the latest values.
const (
	recentRequests = 1000
	recentSteps    = 100
)

// trainer is the memory of Train's loop. Its progress p is kept up to date but
// for the encoded parts, which save fills in.
type trainer struct {
	run         Run
	stop        int
	reportEvery int
	p           Progress

	explorationSource, samplingSource *rand.PCG
	exploration, sampling             *rand.Rand

	replay *Replay
	joiner *joiner
	batch  *Batch
	best   *nn.MLP // nil before the first validation
	// average of the online weights; nil where none is kept.
	average *nn.MLP
	// seen is the largest value of each input since exploration has ended; nil
	// before, and where there are rows.
	seen []float32

	observation []float32 // asks for the next decision
	row         []float32 // of one action
	values      []float32 // of the actions
	scratch     []float32
}

func newTrainer(r Run) (*trainer, error) {
	if err := r.Config.Validate(); err != nil {
		return nil, err
	}
	network := r.Learner.Act()
	if err := r.Rows.check(&r.Config, network); err != nil {
		return nil, err
	}
	inputs := r.Rows.dim(network)
	t := &trainer{
		run:         r,
		stop:        r.Config.Decisions,
		reportEvery: r.ReportEvery,
		replay:      r.Config.newReplay(inputs),
		joiner:      newJoiner(inputs, r.Config.NStep, r.Config.leastDiscount()),
		batch:       NewBatch(r.Config.Batch, inputs),
		row:         make([]float32, r.Rows.Inputs()),
		values:      make([]float32, r.Rows.actions(network)),
		scratch:     make([]float32, network.Scratch()),
	}
	if r.Config.Priority != nil {
		t.batch.Weights = make([]float32, r.Config.Batch)
	}
	if r.Config.WeightAverage > 0 {
		t.average = network.Clone()
	}
	if r.Stop > 0 {
		t.stop = min(r.Stop, t.stop)
	}
	if t.reportEvery <= 0 {
		t.reportEvery = 1000
	}
	t.explorationSource, t.samplingSource = Exploration.PCG(r.Seed), Sampling.PCG(r.Seed)
	t.exploration, t.sampling = rand.New(t.explorationSource), rand.New(t.samplingSource)
	return t, nil
}

// note keeps the range of what the policy meets by its own choices.
func (t *trainer) note() {
	switch cfg := &t.run.Config; {
	case t.run.Rows.Count != 0: // as many numbers as there are rows
	case t.seen != nil:
		for i, x := range t.observation {
			t.seen[i] = max(t.seen[i], x)
		}
	case cfg.Epsilon.At(t.p.Decisions, cfg.Decisions) == cfg.Epsilon.End:
		t.seen = slices.Clone(t.observation)
	}
}

// newReplay makes the run's empty replay buffer.
func (c *Config) newReplay(inputs int) *Replay {
	if c.Priority != nil {
		return NewPrioritisedReplay(c.Replay, inputs, c.CentreRewards, c.Priority.Exponent)
	}
	return NewReplay(c.Replay, inputs, c.CentreRewards)
}

// choose picks an action: with probability epsilon any, else the best.
func (t *trainer) choose(epsilon float64) int32 {
	if t.exploration.Float64() < epsilon {
		return t.run.Rows.random(t.exploration, t.observation, len(t.values))
	}
	t.run.Rows.values(t.values, t.run.Learner.Act(), t.observation, t.row, t.scratch)
	t.run.Config.Advise(t.values, t.observation)
	best := 0
	for i, v := range t.values {
		if v > t.values[best] {
			best = i
		}
	}
	return int32(best)
}

// step takes an action and holds its transition.
func (t *trainer) step(action int32) Step {
	t.joiner.begin(t.observation, action)
	t.p.Actions = append(t.p.Actions, action)
	s := t.run.Env.Step(int(action))
	t.observation = s.Observation
	return s
}

// store ends the latest transition and moves those that completed to replay. A
// nil replay drops them, as when an episode is played again.
func (t *trainer) store(s Step, replay *Replay) error {
	if err := t.checkObservation(); err != nil {
		return err
	}
	discount := t.run.Config.Discount.Factor(s.Elapsed)
	if s.Terminated {
		discount = 0
	}
	t.joiner.end(s.Observation, float32(discount), s.Terminated || s.Truncated)
	for _, c := range s.Completed {
		if err := t.joiner.complete(c, replay); err != nil {
			return fmt.Errorf("%w: %w", ErrEnvironment, err)
		}
		if replay != nil {
			t.p.Utility.add(c.Utility, recentRequests)
		}
	}
	return nil
}

// reset begins the present episode.
func (t *trainer) reset() error {
	t.joiner.reset()
	t.p.Actions = t.p.Actions[:0]
	t.observation = t.run.Env.Reset(t.run.EpisodeSeed(t.p.Episode))
	return t.checkObservation()
}

func (t *trainer) checkObservation() error {
	if want := t.run.Rows.dim(t.run.Learner.Act()); len(t.observation) != want {
		return fmt.Errorf("%w: an observation of %d numbers, the network takes %d", ErrEnvironment, len(t.observation), want)
	}
	return nil
}

// learnDue tells whether a gradient step follows the latest decision.
func (t *trainer) learnDue() bool {
	cfg := &t.run.Config
	return t.p.Decisions >= cfg.Warmup && t.p.Decisions%cfg.TrainEvery == 0 && t.replay.Len() >= cfg.Batch
}

// validateDue tells whether the weights are to be scored now and have not been.
// Before the first gradient step there is nothing to score but chance, unless
// the run ends there.
func (t *trainer) validateDue() bool {
	done := t.p.Decisions
	if t.run.Validate == nil || t.p.Validated == done {
		return false
	}
	return done == t.run.Config.Decisions || (done%t.run.Config.ValidateEvery == 0 && t.p.GradientSteps > 0)
}

// validate scores the online network, and keeps its weights if they are the best.
func (t *trainer) validate() error {
	network := t.candidate()
	score, err := t.run.Validate(network)
	if err != nil {
		return fmt.Errorf("cannot validate after %d decisions: %w", t.p.Decisions, err)
	}
	t.p.Validations++
	t.p.Validated, t.p.Score = t.p.Decisions, score
	if t.best == nil || score > t.p.BestScore {
		t.best, t.p.BestScore = network.Clone(), score
	}
	return nil
}

// save hands the progress to the hook.
func (t *trainer) save() error {
	if t.run.Save == nil {
		return nil
	}
	err := t.encode()
	if err == nil {
		err = t.run.Save(&t.p)
	}
	if err != nil {
		return fmt.Errorf("cannot save training progress after %d decisions: %w", t.p.Decisions, err)
	}
	return nil
}

// encode fills in the encoded parts of the progress.
func (t *trainer) encode() error {
	var errs [6]error
	t.p.Exploration, errs[0] = t.explorationSource.MarshalBinary()
	t.p.Sampling, errs[1] = t.samplingSource.MarshalBinary()
	t.p.Replay, errs[2] = t.replay.AppendBinary(t.p.Replay[:0])
	t.p.Learner, errs[3] = t.run.Learner.MarshalBinary()
	if t.best != nil {
		t.p.Best, errs[4] = t.best.MarshalBinary()
	}
	if t.average != nil {
		t.p.Average, errs[5] = t.average.MarshalBinary()
	}
	t.p.Seen = appendFloats(t.p.Seen[:0], t.seen)
	return errors.Join(errs[:]...)
}

func (t *trainer) report() {
	if t.run.Report == nil {
		return
	}
	cfg := &t.run.Config
	t.run.Report(Report{
		Decisions:     t.p.Decisions,
		Total:         cfg.Decisions,
		GradientSteps: t.p.GradientSteps,
		Episode:       t.p.Episode,
		Epsilon:       cfg.Epsilon.At(t.p.Decisions, cfg.Decisions),
		LearningRate:  cfg.LearningRateAt(t.p.Decisions),
		Utility:       t.p.Utility.Mean,
		Loss:          t.p.Loss.Mean,
		TDError:       t.p.TDError.Mean,
		Validations:   t.p.Validations,
		Score:         t.p.Score,
		BestScore:     t.p.BestScore,
	})
}

// candidate is the network that the run would end with now, were it not for
// better ones before.
func (t *trainer) candidate() *nn.MLP {
	if t.average != nil {
		return t.average
	}
	return t.run.Learner.Act()
}

func (t *trainer) result() Result {
	r := Result{Decisions: t.p.Decisions, Seen: slices.Clone(t.seen)}
	if t.best == nil {
		r.Network = t.candidate().Clone()
		return r
	}
	r.Network, r.Score = t.best.Clone(), t.p.BestScore
	return r
}
