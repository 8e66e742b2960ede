package rl

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// environment is one Env of a run, with its present episode and the transitions of that
// which are not complete yet.
type environment struct {
	env         Env
	joiner      *joiner
	episode     Episode
	observation []float32 // asks for the next decision
	answer      Step      // to the latest one
}

// take holds the transition that an action begins; the environment's step is to follow.
func (t *trainer) take(w *environment, action int32) {
	w.episode.Actions = append(w.episode.Actions, action)
	if t.run.Rows.Taken {
		t.run.Rows.Row(t.row, w.observation, int(action))
		w.joiner.begin(t.row, 0) // the one action of a row
		return
	}
	w.joiner.begin(w.observation, action)
}

// step carries out the action taken.
func (w *environment) step() {
	w.answer = w.env.Step(int(w.episode.Actions[len(w.episode.Actions)-1]))
	w.observation = w.answer.Observation
}

// over reports whether the latest decision was the episode's last.
func (w *environment) over() bool { return w.answer.Terminated || w.answer.Truncated }

// stepAll steps the environments on all cores while this goroutine runs meanwhile, whose
// error it returns; after that this goroutine steps environments too. They share nothing, so
// the result does not depend on which goroutine steps which.
func stepAll(environments []*environment, meanwhile func() error) error {
	var taken atomic.Int64
	work := func() {
		for i := taken.Add(1); i <= int64(len(environments)); i = taken.Add(1) {
			environments[i-1].step()
		}
	}
	var others sync.WaitGroup
	for range min(len(environments), runtime.GOMAXPROCS(0)) - 1 {
		others.Go(work)
	}
	err := meanwhile()
	work()
	others.Wait()
	return err
}

// store ends the environment's latest transition and moves those that completed to
// replay. A nil replay drops them, as when an episode is played again.
func (t *trainer) store(w *environment, replay *Replay) error {
	if err := t.checkObservation(w); err != nil {
		return err
	}
	s := &w.answer
	discount := t.run.Config.Discount.Factor(s.Elapsed)
	if s.Terminated || t.run.Config.DifferenceRewards {
		discount = 0
	}
	next := s.Observation
	if t.run.Rows.Taken {
		next = t.row // any, for it counts nothing
	}
	w.joiner.end(next, float32(discount), w.over())
	for _, c := range s.Completed {
		if err := w.joiner.complete(c, replay); err != nil {
			return fmt.Errorf("%w: %w", ErrEnvironment, err)
		}
		if replay != nil {
			t.p.Utility.add(c.Utility, recentRequests)
		}
	}
	return nil
}

// nextEpisode begins the first episode that no environment has had.
func (t *trainer) nextEpisode(w *environment) error {
	w.episode.Number = t.episodes
	t.episodes++
	return t.reset(w)
}

// reset begins the environment's present episode.
func (t *trainer) reset(w *environment) error {
	w.joiner.reset()
	w.episode.Actions = w.episode.Actions[:0]
	w.observation = w.env.Reset(t.run.EpisodeSeed(w.episode.Number))
	return t.checkObservation(w)
}

func (t *trainer) checkObservation(w *environment) error {
	if want := t.run.Rows.dim(t.run.Learner.Act()); len(w.observation) != want {
		return fmt.Errorf("%w: an observation of %d numbers, the network takes %d", ErrEnvironment, len(w.observation), want)
	}
	return nil
}
