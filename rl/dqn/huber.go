package dqn

import (
	"math"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// huberOp is the mean over the batch of the Huber loss of Q(s, a) against its
// target, with inputs Q (n, actions), actions (n) and targets (n): quadratic
// within delta of the target, linear beyond. Only the taken action counts.
type huberOp struct {
	fusedOp
	graph *graph
	delta float32
	loss  *gorgonia.F32

	tdError, meanQ float64 // of the last run: means over the batch
}

func (g *graph) newHuber(delta float32) *huberOp {
	g.operations++
	loss := gorgonia.NewF32(0)
	return &huberOp{
		fusedOp: fusedOp{
			name:   "huber",
			id:     g.operations,
			inputs: []hm.Type{floatMatrix, intVector, floatVector},
			shape:  tensor.ScalarShape(),
			out:    loss,
		},
		graph: g,
		delta: delta,
		loss:  loss,
	}
}

// Do computes the loss, and the step's statistics on the way.
func (o *huberOp) Do(v ...gorgonia.Value) (gorgonia.Value, error) {
	q, actions, targets := floats(v[0]), v[1].(*tensor.Dense).Int32s(), floats(v[2])
	width := len(q) / len(actions)
	delta := float64(o.delta)
	var loss, tdError, sum float64
	for i, a := range actions {
		taken := float64(q[i*width+int(a)])
		e := math.Abs(taken - float64(targets[i]))
		if e <= delta {
			loss += e * e / 2
		} else {
			loss += delta * (e - delta/2)
		}
		tdError += e
		sum += taken
	}
	n := float64(len(actions))
	o.tdError, o.meanQ = tdError/n, sum/n
	*o.loss = gorgonia.F32(loss / n)
	return o.out, nil
}

// DiffWRT names Q alone: the target is held fixed.
func (o *huberOp) DiffWRT(int) []bool { return []bool{true, false, false} }

// SymDiff builds the node of the gradient with respect to Q.
func (o *huberOp) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	inputs := append(append([]hm.Type{}, o.inputs...), tensor.Float32)
	f, dq := o.graph.newFused("huber gradient", inputs, nil, in[0].Shape()...)
	var b builder
	node := b.apply(&elementOp{f, func(v ...gorgonia.Value) {
		scale := float32(*v[3].(*gorgonia.F32))
		huberGradient(dq, floats(v[0]), v[1].(*tensor.Dense).Int32s(), floats(v[2]), o.delta, scale)
	}}, in[0], in[1], in[2], grad)
	return gorgonia.Nodes{node, nil, nil}, b.err
}

// huberGradient writes the loss's gradient with respect to q, times scale.
func huberGradient(dq, q []float32, actions []int32, targets []float32, delta, scale float32) {
	clear(dq)
	width := len(q) / len(actions)
	scale /= float32(len(actions))
	for i, a := range actions {
		k := i*width + int(a)
		dq[k] = scale * max(-delta, min(delta, q[k]-targets[i]))
	}
}
