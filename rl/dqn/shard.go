package dqn

import (
	"runtime"
	"sync"
	"sync/atomic"

	"gearshift/rl"
	"gearshift/router/nn"
)

// shardRows is the most rows of a batch that are computed as one shard
// (docs/decisions/0037-large-batches-in-shards.md).
const shardRows = 512

// shard computes what a share of a batch's rows contributes to a step: their
// targets, their part of the loss, and its gradient. It shares nothing with the
// others but the networks, which no shard writes.
type shard struct {
	first, rows int // of the batch
	graph       *graph
	gradients   network

	choice []float32 // (rows, actions): Q_online(s')
	value  []float32 // (rows, actions): Q_target(s')
	err    error     // of the last run
}

// newShards divides a batch of cfg's size into shards of nearly the same size.
// How many there are depends on the batch alone, so that a step gives the same
// bits on any number of cores.
func newShards(cfg rl.Config, online *network) ([]*shard, error) {
	shards := make([]*shard, (cfg.Batch+shardRows-1)/shardRows)
	for i := range shards {
		first := i * cfg.Batch / len(shards)
		rows := (i+1)*cfg.Batch/len(shards) - first
		gradients, err := newNetwork(online.q.Sizes, online.dueling)
		if err != nil {
			return nil, err
		}
		g, err := newGraph(online, gradients.MLP, rows, cfg.Batch, float32(cfg.Huber))
		if err != nil {
			return nil, err
		}
		shards[i] = &shard{
			first: first, rows: rows, graph: g, gradients: gradients,
			choice: make([]float32, rows*online.q.Outputs()),
			value:  make([]float32, rows*online.q.Outputs()),
		}
	}
	return shards, nil
}

// run computes the shard's part of b's loss and gradient, and its rows' TD errors.
func (s *shard) run(l *Learner, b *rl.Batch) {
	inputs, end := l.online.Inputs(), s.first+s.rows
	copy(s.graph.observations, b.Observations[s.first*inputs:])
	copy(s.graph.actions, b.Actions[s.first:])
	s.setTargets(l, b)
	for i := range s.graph.weights {
		s.graph.weights[i] = 1
	}
	if b.Weights != nil {
		copy(s.graph.weights, b.Weights[s.first:])
	}
	s.err = s.graph.run()
	copy(b.TDErrors[s.first:end], s.graph.loss.tdErrors)
}

// setTargets writes y = r + discount·Q_target(s', a'), where a' is what the policy
// would do: argmax_a Q_online(s', a), with the margin of what s' advises.
func (s *shard) setTargets(l *Learner, b *rl.Batch) {
	actions, inputs := l.online.q.Outputs(), l.online.q.Inputs()
	next := b.Next[s.first*inputs : (s.first+s.rows)*inputs]
	values(s.choice, next, l.online.q, s.rows, s.graph.hidden) // which the graph's run overwrites
	values(s.value, next, l.target.q, s.rows, s.graph.hidden)
	for i := range s.rows {
		row := i * actions
		choice := s.choice[row : row+actions]
		l.config.Advise(choice, next[i*inputs:(i+1)*inputs])
		s.graph.targets[i] = b.Rewards[s.first+i] + b.Discounts[s.first+i]*s.value[row+argmax(choice)]
	}
}

// runShards computes all shards, on as many cores as there are, and leaves the
// sum of their gradients in the first's. It is added up in the shards' order.
func (l *Learner) runShards(b *rl.Batch) error {
	var next atomic.Int64
	work := func() {
		for i := next.Add(1); i <= int64(len(l.shards)); i = next.Add(1) {
			l.shards[i-1].run(l, b)
		}
	}
	var helpers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(l.shards)) - 1 {
		helpers.Go(work)
	}
	work()
	helpers.Wait()
	sum := l.gradients()
	for i, s := range l.shards {
		if s.err != nil {
			return s.err
		}
		if i > 0 {
			nn.AddRows(sum, s.gradients.flat)
		}
	}
	return nil
}

// gradients is where the gradient of a whole batch lies after runShards.
func (l *Learner) gradients() []float32 { return l.shards[0].gradients.flat }
