package dqn

import (
	"fmt"
	"math/rand/v2"

	"gearshift/rl"
)

// RowLearner learns a network that values the actions one by one ([rl.Rows]). The
// online network chooses the row of s' that is best among those that are open;
// from there on it is a [Learner] of the one action that was taken, from the row
// taken to the row chosen.
type RowLearner struct {
	*Learner
	rows rl.Rows

	hidden [][]float32 // of the network for all rows of s'
	all    []float32   // (batch·actions, inputs): the rows of s'
	values []float32   // (batch·actions): Q_online of each

	taken, chosen []float32 // (batch, inputs): the rows of s and of s'
	actions       []int32   // (batch): zeros, the one action
}

var _ rl.Learner = (*RowLearner)(nil)

// NewRows is [New] for observations that divide into rows.
func NewRows(cfg rl.Config, rows rl.Rows, rng *rand.Rand) (*RowLearner, error) {
	if rows.Shared < 0 || rows.Own < 1 || rows.Count < 1 {
		return nil, fmt.Errorf("cannot make a learner: %d rows of %d shared numbers and %d own", rows.Count, rows.Shared, rows.Own)
	}
	in := rows.Inputs()
	l, err := New(cfg, in, 1, rng)
	if err != nil {
		return nil, err
	}
	n := cfg.Batch * rows.Count
	return &RowLearner{
		Learner: l, rows: rows,
		hidden:  newHidden(l.online.q, n),
		all:     make([]float32, n*in),
		values:  make([]float32, n),
		taken:   make([]float32, cfg.Batch*in),
		chosen:  make([]float32, cfg.Batch*in),
		actions: make([]int32, cfg.Batch),
	}, nil
}

// Learn takes one gradient step.
func (l *RowLearner) Learn(b *rl.Batch) (rl.Stats, error) {
	if err := l.check(b); err != nil {
		return rl.Stats{}, err
	}
	in, dim := l.rows.Inputs(), l.rows.Dim()
	for i, a := range b.Actions {
		l.rows.Row(l.taken[i*in:(i+1)*in], b.Observations[i*dim:(i+1)*dim], int(a))
	}
	l.choose(b.Next)
	step := *b
	step.Observations, step.Next, step.Actions = l.taken, l.chosen, l.actions
	return l.Learner.Learn(&step)
}

// choose copies the best open row of each next observation into chosen: the first
// where none is open, as after the end of an episode, whose discount is 0.
func (l *RowLearner) choose(next []float32) {
	in, dim, count := l.rows.Inputs(), l.rows.Dim(), l.rows.Count
	for k := range l.values {
		l.rows.Row(l.all[k*in:(k+1)*in], next[k/count*dim:][:dim], k%count)
	}
	values(l.values, l.all, l.online.q, len(l.values), l.hidden)
	for i := range l.actions {
		best := -1
		for a := range count {
			if l.rows.Open(next[i*dim:(i+1)*dim], a) && (best < 0 || l.values[i*count+a] > l.values[i*count+best]) {
				best = a
			}
		}
		k := i*count + max(0, best)
		copy(l.chosen[i*in:(i+1)*in], l.all[k*in:(k+1)*in])
	}
}

// check refuses a batch that the division into rows would misread.
func (l *RowLearner) check(b *rl.Batch) error {
	n := len(l.actions)
	if want := n * l.rows.Dim(); len(b.Actions) != n || len(b.Observations) != want || len(b.Next) != want {
		return fmt.Errorf("cannot learn from a batch of %d: the learner takes %d observations of %d numbers", len(b.Actions), n, l.rows.Dim())
	}
	for _, a := range b.Actions {
		if a < 0 || int(a) >= l.rows.Count {
			return fmt.Errorf("cannot learn from action %d of %d", a, l.rows.Count)
		}
	}
	return nil
}
