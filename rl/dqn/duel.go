package dqn

import (
	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"

	"gearshift/rl/fused"
)

// duelOp is the values of the actions from the outputs of a dueling head.
type duelOp struct {
	fused.Op
	graph *fused.Graph
	q     []float32
}

func newDuel(g *fused.Graph, n, actions int) *duelOp {
	f, q := g.NewOp("duel", []hm.Type{fused.Matrix}, nil, n, actions)
	return &duelOp{Op: f, graph: g, q: q}
}

// Do computes the values.
func (o *duelOp) Do(v ...gorgonia.Value) (gorgonia.Value, error) {
	combine(o.q, fused.Floats(v[0]), o.Shape[1])
	return o.Out, nil
}

// DiffWRT names the one input, which has a gradient.
func (o *duelOp) DiffWRT(int) []bool { return []bool{true} }

// SymDiff builds the node of the gradient.
func (o *duelOp) SymDiff(in gorgonia.Nodes, _, dy *gorgonia.Node) (gorgonia.Nodes, error) {
	f, dx := o.graph.NewOp("duel gradient", []hm.Type{fused.Matrix}, nil, in[0].Shape()...)
	node := o.graph.Apply(&fused.Backward{Op: f, Compute: func(v ...gorgonia.Value) { combineGradient(dx, fused.Floats(v[0]), o.Shape[1]) }}, dy)
	return gorgonia.Nodes{node}, o.graph.Err()
}
