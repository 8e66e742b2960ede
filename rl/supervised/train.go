package supervised

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"gorgonia.org/gorgonia"

	"gearshift/rl"
	"gearshift/rl/fused"
	"gearshift/router/nn"
)

// ErrDiverged is returned where the loss or the gradient is not finite.
var ErrDiverged = errors.New("training diverged: the loss or its gradient is not finite")

// Config of a training run.
type Config struct {
	Steps int
	Batch int // examples of a step
	// Rate is the largest learning rate: it rises to that for a tenth of the steps, and
	// falls to nothing by half a cosine.
	Rate float64
	Clip float64 // bounds the norm of each part's gradient
}

// Fill writes the features of an example that is the same each time for a step and a row,
// and returns its label. A part whose features are nil is left out. Several goroutines
// call it at once.
type Fill func(step, row int, features [][]float32) (label int)

// Progress is what a step shows.
type Progress struct {
	Step, Steps    int
	Loss, Accuracy float64 // of the step's examples, before it
}

// shards is how many parts of a batch are computed at once: the same on any machine, so
// that a step gives the same bits on any number of cores.
const shards = 2

// trainer takes gradient steps.
type trainer struct {
	network *Network
	config  Config
	shards  [shards]*shard
	adam    []rl.Adam // of each part
}

// shard is the graph of a share of a batch's rows.
type shard struct {
	first     int         // row
	rows      [][]int     // of each part: those that have its modality
	features  [][]float32 // of each part, for its rows
	labels    []int32
	gradients []*Part
	entropy   *entropyOp
	program   fused.Program
	err       error
}

// Train trains the network. The rows of a batch have the subsets of the modalities in
// turn. Where the context ends, it stops after a step, with the context's error.
func Train(ctx context.Context, n *Network, c Config, fill Fill, progress func(Progress)) error {
	t, err := newTrainer(n, c)
	if err != nil {
		return fmt.Errorf("cannot train: %w", err)
	}
	for step := range c.Steps {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p, err := t.step(step, fill)
		if err != nil {
			return fmt.Errorf("cannot train: step %d: %w", step+1, err)
		}
		progress(p)
	}
	return nil
}

func newTrainer(n *Network, c Config) (*trainer, error) {
	subsets := 1<<len(n.Parts) - 1
	if c.Steps < 1 || c.Rate <= 0 || c.Clip <= 0 || c.Batch < shards*subsets {
		return nil, fmt.Errorf("%d steps of %d examples at a rate of %v, clipped at %v; want %d examples at least", c.Steps, c.Batch, c.Rate, c.Clip, shards*subsets)
	}
	t := &trainer{network: n, config: c}
	for _, p := range n.Parts {
		t.adam = append(t.adam, rl.NewAdam(len(p.flat), c.Rate))
	}
	for i := range t.shards {
		first := i * c.Batch / shards
		s, err := newShard(n, first, (i+1)*c.Batch/shards-first, c.Batch)
		if err != nil {
			return nil, err
		}
		t.shards[i] = s
	}
	return t, nil
}

func newShard(n *Network, first, size, batch int) (*shard, error) {
	s := &shard{first: first, labels: make([]int32, size)}
	for i, p := range n.Parts {
		var rows []int
		for r := range size {
			if has(first+r, i, len(n.Parts)) {
				rows = append(rows, r)
			}
		}
		g, err := newPart(p.Encoder, n.Labels)
		if err != nil {
			return nil, err
		}
		s.rows = append(s.rows, rows)
		s.features = append(s.features, make([]float32, len(rows)*p.Features()))
		s.gradients = append(s.gradients, g)
	}
	var err error
	s.program, err = fused.Build(func(g *fused.Graph) (*gorgonia.Node, gorgonia.Nodes) { return s.build(g, n, batch) })
	return s, err
}

// has says whether a row of a batch has a part's modality, of so many: rows have the
// subsets, numbered by their bits, in turn.
func has(row, part, parts int) bool { return (1+row%(1<<parts-1))>>part&1 == 1 }

// build adds the nodes of the loss, and returns it with the network's parameters.
func (s *shard) build(g *fused.Graph, n *Network, batch int) (*gorgonia.Node, gorgonia.Nodes) {
	var inputs, parameters gorgonia.Nodes
	for i, p := range n.Parts {
		x := g.Variable(p.Name, s.features[i], len(s.rows[i])*p.Positions(), p.Inputs)
		for k, l := range p.Layers {
			if k == len(p.Each) {
				x = g.Apply(newPoolOp(g, newPooling(&p.Encoder), len(s.rows[i])), x)
			}
			w := g.Variable(fmt.Sprintf("%s w%d", p.Name, k), l.Weights, l.In, l.Out)
			b := g.Variable(fmt.Sprintf("%s b%d", p.Name, k), l.Biases, l.Out)
			parameters = append(parameters, w, b)
			x = g.Dense(fused.Layer{
				First: k == 0, Rectified: k < len(p.Layers)-1,
				Weights: s.gradients[i].Layers[k].Weights, Biases: s.gradients[i].Layers[k].Biases,
			}, x, w, b)
		}
		inputs = append(inputs, x)
	}
	s.entropy = newEntropy(g, s.rows, len(s.labels), batch, n.Labels)
	return g.Apply(s.entropy, append(inputs, g.Variable("labels", s.labels, len(s.labels)))...), parameters
}

// fill has the features and labels written.
func (s *shard) fill(n *Network, step int, fill Fill) {
	at, features := make([]int, len(n.Parts)), make([][]float32, len(n.Parts))
	for r := range s.labels {
		for i, p := range n.Parts {
			features[i] = nil
			if at[i] < len(s.rows[i]) && s.rows[i][at[i]] == r {
				size := p.Features()
				features[i] = s.features[i][at[i]*size : (at[i]+1)*size]
				at[i]++
			}
		}
		s.labels[r] = int32(fill(step, s.first+r, features))
	}
}

// step takes one gradient step.
func (t *trainer) step(step int, fill Fill) (Progress, error) {
	each(shards, func(i int) {
		s := t.shards[i]
		s.fill(t.network, step, fill)
		s.err = s.program.Run()
	})
	p := Progress{Step: step + 1, Steps: t.config.Steps}
	for _, s := range t.shards {
		if s.err != nil {
			return p, s.err
		}
		p.Loss += float64(*s.entropy.loss)
		p.Accuracy += float64(s.entropy.right) / float64(t.config.Batch)
	}
	norms := make([]float64, len(t.adam))
	each(len(t.adam), func(i int) {
		sum := t.shards[0].gradients[i].flat
		for _, s := range t.shards[1:] {
			nn.AddRows(sum, s.gradients[i].flat)
		}
		norms[i] = rl.GradientNorm(sum)
	})
	if slices.ContainsFunc(append(norms, p.Loss), func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
		return p, ErrDiverged
	}
	rate := t.config.rate(step)
	each(len(t.adam), func(i int) {
		t.adam[i].Rate = rate
		t.adam[i].Step(t.network.Parts[i].flat, t.shards[0].gradients[i].flat, rl.ClipFactor(norms[i], t.config.Clip))
	})
	return p, nil
}

// rate is the learning rate of a step.
func (c *Config) rate(step int) float64 {
	at := (float64(step) + 0.5) / float64(c.Steps)
	const rise = 0.1
	if at < rise {
		return c.Rate * at / rise
	}
	return c.Rate * (1 + math.Cos(math.Pi*(at-rise)/(1-rise))) / 2
}

// each calls work with 0 to n−1, at once where there are cores.
func each(n int, work func(i int)) {
	if runtime.GOMAXPROCS(0) == 1 {
		for i := range n {
			work(i)
		}
		return
	}
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { work(i) })
	}
	group.Wait()
}
