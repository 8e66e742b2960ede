package rl

import (
	"errors"
	"fmt"
	"slices"

	"gearshift/router/nn"
)

// begin starts the first episodes, or puts everything back to where p was saved.
func (t *trainer) begin(p *Progress) error {
	if p == nil {
		for _, w := range t.environments {
			if err := t.nextEpisode(w); err != nil {
				return err
			}
		}
		return nil
	}
	if err := t.restore(p); err != nil {
		return err
	}
	for i, w := range t.environments {
		if err := t.replayEpisode(w, p.Episodes[i]); err != nil {
			return err
		}
	}
	return nil
}

// restore takes over the state in p. It changes the learner last, since that is the
// caller's and must not change if p is refused.
func (t *trainer) restore(p *Progress) error {
	if p.Decisions > t.end {
		return fmt.Errorf("it has %d decisions, the run %d", p.Decisions, t.run.Config.Decisions)
	}
	n := len(t.environments)
	if len(p.Episodes) != n {
		return fmt.Errorf("it is of %d environments, the run of %d", len(p.Episodes), n)
	}
	for _, e := range p.Episodes {
		if e.Number >= uint64(p.Decisions+n) || len(e.Actions) > p.Decisions/n || p.Decisions%n != 0 {
			return errors.New("its counts contradict each other")
		}
		t.episodes = max(t.episodes, e.Number+1)
	}
	t.p = *p
	t.p.Episodes, t.p.Replay = nil, nil
	if err := t.explorationSource.UnmarshalBinary(p.Exploration); err != nil {
		return fmt.Errorf("the exploration source: %w", err)
	}
	if err := t.samplingSource.UnmarshalBinary(p.Sampling); err != nil {
		return fmt.Errorf("the sampling source: %w", err)
	}
	if err := t.replay.UnmarshalBinary(p.Replay); err != nil {
		return err
	}
	var err error
	if t.best, err = t.network("best", p.Best); err != nil {
		return err
	}
	if t.average, err = t.network("average", p.Average); err != nil {
		return err
	}
	if (t.average != nil) != (t.run.Config.WeightAverage > 0) {
		return errors.New("its average network is missing, or should be")
	}
	if len(p.Seen) > 0 {
		if t.seen = make([]float32, t.run.Learner.Act().Inputs()); len(p.Seen) != 4*len(t.seen) {
			return fmt.Errorf("%d bytes of its inputs' range, %d expected", len(p.Seen), 4*len(t.seen))
		}
		readFloats(t.seen, p.Seen)
	}
	t.p.Seen = nil
	return t.run.Learner.UnmarshalBinary(p.Learner)
}

// network decodes a network of the learner's shape, or nil from nothing.
func (t *trainer) network(what string, data []byte) (*nn.MLP, error) {
	if len(data) == 0 {
		return nil, nil
	}
	m := new(nn.MLP)
	if err := m.UnmarshalBinary(data); err != nil {
		return nil, fmt.Errorf("its %s network: %w", what, err)
	}
	if !slices.Equal(m.Sizes, t.run.Learner.Act().Sizes) {
		return nil, fmt.Errorf("its %s network has sizes %v", what, m.Sizes)
	}
	return m, nil
}

// replayEpisode plays an environment's present episode again, up to where it was, which
// restores the environment and the transitions that are not complete.
func (t *trainer) replayEpisode(w *environment, e Episode) error {
	w.episode.Number = e.Number
	if err := t.reset(w); err != nil {
		return err
	}
	for i, a := range e.Actions {
		if a < 0 || int(a) >= len(t.values) {
			return fmt.Errorf("action %d of the episode is %d, of %d", i, a, len(t.values))
		}
		t.take(w, a)
		w.step()
		if err := t.store(w, nil); err != nil {
			return err
		}
		if w.over() {
			return fmt.Errorf("%w: episode %d ends earlier than before, after %d decisions", ErrEnvironment, e.Number, i+1)
		}
	}
	return nil
}
