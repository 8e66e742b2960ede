package rl

import (
	"context"
	"errors"
	"fmt"

	"gearshift/router/nn"
)

// Recording is an environment of decisions that were taken elsewhere: Step is always called
// with what Action returns. Reset(n) begins its n-th episode. An episode's end is a
// truncation, unless nothing can follow by the nature of the task.
type Recording interface {
	Env
	Episodes() int
	// Action is the one taken on the last observation.
	Action() int
}

// Offline is one run of learning from a recording. A log shows what its own actions earned,
// and nothing about others: the values of actions that were never taken would drift without
// correction (Fujimoto et al. 2019). So half of each minibatch comes from a simulator that
// explores (compare Ball et al. 2023). The rewards of both halves are centred separately, so
// that a bias of the simulator under some load says nothing for or against the logged
// actions.
type Offline struct {
	// Config gives the hidden layers, batch, discount, returns, centring, target, loss and
	// final learning rate; the rest of it is not used. Transitions are drawn uniformly.
	Config    Config
	Seed      uint64 // of exploration and sampling
	Learner   Learner
	Rows      Rows
	Recording Recording
	// Simulated is explored for so many Decisions: a share Epsilon of them random, the
	// others by the learner's own network. EpisodeSeed gives the seeds of its episodes.
	Simulated   Env
	Decisions   int
	Epsilon     float64
	EpisodeSeed func(episode uint64) uint64
	// Steps are the gradient steps.
	Steps int
}

// OfflineResult is the result of a run.
type OfflineResult struct {
	Network *nn.MLP // the last weights, or their average
	// Recorded and Explored transitions were learnt from.
	Recorded, Explored int
}

// ErrNothingRecorded says that the recording holds no transition whose reward is known.
var ErrNothingRecorded = errors.New("no recorded decision is followed by another and has a known reward")

// offline is the state of a run.
type offline struct {
	*trainer
	o            Offline
	recorded     *Replay
	upper, lower *Batch // the halves of the trainer's batch
	recording    *environment
}

// LearnOffline runs o. Its result depends only on o.
func LearnOffline(ctx context.Context, o Offline) (OfflineResult, error) {
	r, err := newOffline(o)
	if err != nil {
		return OfflineResult{}, fmt.Errorf("cannot learn: %w", err)
	}
	if err := r.play(ctx); err != nil {
		return OfflineResult{}, fmt.Errorf("cannot learn from the record: %w", err)
	}
	if r.recorded.Len() == 0 {
		return OfflineResult{}, ErrNothingRecorded
	}
	if err := r.explore(ctx); err != nil {
		return OfflineResult{}, fmt.Errorf("cannot learn in the simulator: %w", err)
	}
	for step := 1; step <= o.Steps; step++ {
		if err := ctx.Err(); err != nil {
			return OfflineResult{}, fmt.Errorf("learning interrupted after %d steps: %w", step-1, err)
		}
		if err := r.step(); err != nil {
			return OfflineResult{}, fmt.Errorf("gradient step %d: %w", step, err)
		}
	}
	return OfflineResult{Network: r.candidate().Clone(), Recorded: r.recorded.Len(), Explored: r.replay.Len()}, nil
}

func newOffline(o Offline) (*offline, error) {
	o.Config.Priority, o.Config.Environments = nil, 1
	switch {
	case o.Config.Batch < 2:
		return nil, fmt.Errorf("a batch of %d has no halves", o.Config.Batch)
	case o.Steps < 1:
		return nil, fmt.Errorf("%d gradient steps; at least 1 is needed", o.Steps)
	case o.Decisions < 1:
		return nil, fmt.Errorf("%d simulated decisions; at least 1 is needed", o.Decisions)
	}
	t, err := newTrainer(Run{
		Config: o.Config, Seed: o.Seed, Envs: []Env{o.Simulated}, Learner: o.Learner, Rows: o.Rows, EpisodeSeed: o.EpisodeSeed,
	})
	if err != nil {
		return nil, err
	}
	inputs := o.Rows.kept(o.Learner.Act())
	r := &offline{
		trainer: t, o: o, recorded: o.Config.newReplay(inputs),
		recording: &environment{env: o.Recording, joiner: newJoiner(inputs, o.Config.NStep, o.Config.leastDiscount())},
	}
	half := o.Config.Batch / 2
	r.upper, r.lower = t.batch.part(0, half, inputs), t.batch.part(half, o.Config.Batch, inputs)
	return r, nil
}

// part returns the transitions from one index to another as a batch that shares b's memory.
func (b *Batch) part(from, to, inputs int) *Batch {
	return &Batch{
		Observations: b.Observations[from*inputs : to*inputs],
		Next:         b.Next[from*inputs : to*inputs],
		Actions:      b.Actions[from:to],
		Rewards:      b.Rewards[from:to],
		Discounts:    b.Discounts[from:to],
		TDErrors:     b.TDErrors[from:to],
		places:       b.places[from:to],
	}
}

// play moves the recording's transitions into replay.
func (r *offline) play(ctx context.Context) error {
	actions := r.run.Rows.actions(r.run.Learner.Act())
	for n := range r.o.Recording.Episodes() {
		if err := ctx.Err(); err != nil {
			return err
		}
		w := r.recording
		w.joiner.reset()
		w.episode.Actions = w.episode.Actions[:0]
		w.observation = w.env.Reset(uint64(n))
		if err := r.checkObservation(w); err != nil {
			return err
		}
		for {
			a := r.o.Recording.Action()
			if a < 0 || a >= actions {
				return fmt.Errorf("%w: action %d of %d", ErrEnvironment, a, actions)
			}
			r.take(w, int32(a))
			w.step()
			if err := r.store(w, r.recorded); err != nil {
				return err
			}
			if w.over() {
				break
			}
		}
	}
	return nil
}

// explore takes decisions in the simulator.
func (r *offline) explore(ctx context.Context) error {
	w := r.environments[0]
	if err := r.nextEpisode(w); err != nil {
		return err
	}
	for range r.o.Decisions {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.take(w, r.choose(w.observation, r.o.Epsilon))
		w.step()
		if err := r.store(w, r.replay); err != nil {
			return err
		}
		if w.over() {
			if err := r.nextEpisode(w); err != nil {
				return err
			}
		}
	}
	if r.replay.Len() == 0 {
		return fmt.Errorf("none of the %d simulated decisions beside the log has completed; want a longer log", r.o.Decisions)
	}
	return nil
}

// step is one gradient step: sample both, target, learn, average, sync.
func (r *offline) step() error {
	r.recorded.Sample(r.upper, r.sampling)
	r.replay.Sample(r.lower, r.sampling)
	return r.descend(r.run.Config.FinalLearningRate)
}
