package dqn

import (
	"math"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"gearshift/rl/fused"
)

// huberOp is what n rows contribute to the mean over the batch of the weighted Huber
// loss of Q(s, a) against its target, with inputs Q (n, actions), actions (n),
// targets (n) and weights (n): quadratic within delta of the target, linear beyond.
// Only the taken action counts.
type huberOp struct {
	fused.Op
	graph *fused.Graph
	delta float32
	batch float64 // rows in the batch that the n are of
	loss  *gorgonia.F32

	tdErrors []float32 // (n): |Q(s, a) − target| of the last run
	tdError  float64   // what they contribute to the batch's mean
}

func newHuber(g *fused.Graph, n, batch int, delta float32) *huberOp {
	op, loss := g.NewScalarOp("huber", []hm.Type{fused.Matrix, fused.IntVector, fused.Vector, fused.Vector})
	return &huberOp{Op: op, graph: g, delta: delta, batch: float64(batch), loss: loss, tdErrors: make([]float32, n)}
}

// Do computes the loss, and the step's statistics on the way.
func (o *huberOp) Do(v ...gorgonia.Value) (gorgonia.Value, error) {
	q, actions, targets, weights := fused.Floats(v[0]), v[1].(*tensor.Dense).Int32s(), fused.Floats(v[2]), fused.Floats(v[3])
	width := len(q) / len(actions)
	delta := float64(o.delta)
	var loss, tdError float64
	for i, a := range actions {
		e := math.Abs(float64(q[i*width+int(a)]) - float64(targets[i]))
		huber := delta * (e - delta/2)
		if e <= delta {
			huber = e * e / 2
		}
		loss += float64(weights[i]) * huber
		o.tdErrors[i] = float32(e)
		tdError += e
	}
	o.tdError = tdError / o.batch
	*o.loss = gorgonia.F32(loss / o.batch)
	return o.Out, nil
}

// DiffWRT names Q alone: targets and weights are held fixed.
func (o *huberOp) DiffWRT(int) []bool { return []bool{true, false, false, false} }

// SymDiff builds the node of the gradient with respect to Q.
func (o *huberOp) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	inputs := append(append([]hm.Type{}, o.Inputs()...), tensor.Float32)
	f, dq := o.graph.NewOp("huber gradient", inputs, nil, in[0].Shape()...)
	node := o.graph.Apply(&fused.Backward{Op: f, Compute: func(v ...gorgonia.Value) {
		scale := float32(*v[4].(*gorgonia.F32)) / float32(o.batch)
		huberGradient(dq, fused.Floats(v[0]), v[1].(*tensor.Dense).Int32s(), fused.Floats(v[2]), fused.Floats(v[3]), o.delta, scale)
	}}, in[0], in[1], in[2], in[3], grad)
	return gorgonia.Nodes{node, nil, nil, nil}, o.graph.Err()
}

// huberGradient writes the loss's gradient with respect to q, times scale.
func huberGradient(dq, q []float32, actions []int32, targets, weights []float32, delta, scale float32) {
	clear(dq)
	width := len(q) / len(actions)
	for i, a := range actions {
		k := i*width + int(a)
		dq[k] = scale * weights[i] * max(-delta, min(delta, q[k]-targets[i]))
	}
}
