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

// trainer is the state of Train's loop. Its progress p is always up to date, except for the
// encoded parts, which save fills in.
type trainer struct {
	run         Run
	end, stop   int // decisions, in whole rounds of the environments
	reportEvery int
	p           Progress

	explorationSource, samplingSource *rand.PCG
	exploration, sampling             *rand.Rand

	environments []*environment
	episodes     uint64 // begun
	replay       *Replay
	batch        *Batch
	best         *nn.MLP // nil before the first validation
	// average of the online weights; nil where none is kept.
	average *nn.MLP
	// seen is the largest value of each input since exploration has ended; nil
	// before, and where there are rows.
	seen []float32

	row     []float32 // of one action
	values  []float32 // of the actions
	scratch []float32
}

func newTrainer(r Run) (*trainer, error) {
	if err := r.Config.Validate(); err != nil {
		return nil, err
	}
	if n := max(1, r.Config.Environments); len(r.Envs) != n {
		return nil, fmt.Errorf("the run has %d environments, its configuration %d", len(r.Envs), n)
	}
	network := r.Learner.Act()
	if err := r.Rows.check(&r.Config, network); err != nil {
		return nil, err
	}
	inputs := r.Rows.kept(network)
	t := &trainer{
		run:         r,
		reportEvery: r.ReportEvery,
		replay:      r.Config.newReplay(inputs),
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
	for _, env := range r.Envs {
		t.environments = append(t.environments, &environment{env: env, joiner: newJoiner(inputs, r.Config.NStep, r.Config.leastDiscount())})
	}
	t.end = t.rounds(r.Config.Decisions)
	if t.stop = t.end; r.Stop > 0 {
		t.stop = min(t.rounds(r.Stop), t.end)
	}
	if t.reportEvery <= 0 {
		t.reportEvery = 1000
	}
	t.explorationSource, t.samplingSource = Exploration.PCG(r.Seed), Sampling.PCG(r.Seed)
	t.exploration, t.sampling = rand.New(t.explorationSource), rand.New(t.samplingSource)
	return t, nil
}

// rounds is the least number of decisions, not below the given one, that ends a
// round of one decision in each environment.
func (t *trainer) rounds(decisions int) int {
	n := len(t.environments)
	return (decisions + n - 1) / n * n
}

// passed reports whether the latest round has reached a multiple of every.
func (t *trainer) passed(every int) bool { return t.p.Decisions%every < len(t.environments) }

// decide takes the environment's next decision, ε-greedy on the online network.
func (t *trainer) decide(w *environment) {
	t.note(w.observation)
	t.take(w, t.choose(w.observation, t.run.Config.Epsilon.At(t.p.Decisions, t.run.Config.Decisions)))
	t.p.Decisions++
}

// note keeps the range of the inputs that the policy meets by its own choices, so that a
// router can report inputs beyond it.
func (t *trainer) note(observation []float32) {
	switch cfg := &t.run.Config; {
	case t.run.Rows.Count != 0: // as many numbers as there are rows
	case t.seen != nil:
		for i, x := range observation {
			t.seen[i] = max(t.seen[i], x)
		}
	case cfg.Epsilon.At(t.p.Decisions, cfg.Decisions) == cfg.Epsilon.End:
		t.seen = slices.Clone(observation)
	}
}

// newReplay makes the run's empty replay buffer.
func (c *Config) newReplay(inputs int) *Replay {
	if c.Priority != nil {
		return NewPrioritisedReplay(c.Replay, inputs, c.CentreRewards, c.Priority.Exponent)
	}
	return NewReplay(c.Replay, inputs, c.CentreRewards)
}

// choose picks an action: with probability epsilon a random one, else the best.
func (t *trainer) choose(observation []float32, epsilon float64) int32 {
	if t.exploration.Float64() < epsilon {
		return t.run.Rows.random(t.exploration, observation, len(t.values))
	}
	t.run.Rows.values(t.values, t.run.Learner.Act(), observation, t.row, t.scratch)
	t.run.Config.Advise(t.values, observation)
	best := 0
	for i, v := range t.values {
		if v > t.values[best] {
			best = i
		}
	}
	return int32(best)
}

// learnDue reports whether a gradient step follows a decision, counted from 1.
func (t *trainer) learnDue(decision int) bool {
	cfg := &t.run.Config
	return decision >= cfg.Warmup && decision%cfg.TrainEvery == 0 && t.replay.Len() >= cfg.Batch
}

// validateDue reports whether the weights are to be scored now and have not been. Before the
// first gradient step they are random, and are scored only if the run ends there.
func (t *trainer) validateDue() bool {
	done := t.p.Decisions
	if t.run.Validate == nil || t.p.Validated == done {
		return false
	}
	return done == t.end || (t.passed(t.run.Config.ValidateEvery) && t.p.GradientSteps > 0)
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
	t.p.Episodes = t.p.Episodes[:0]
	for _, w := range t.environments {
		t.p.Episodes = append(t.p.Episodes, w.episode)
	}
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
		Episode:       t.episodes - 1,
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

// candidate returns the network that is validated, and that the run ends with if none before
// has scored better: the average of the weights, or the weights.
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
