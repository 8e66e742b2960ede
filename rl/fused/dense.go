package fused

import (
	"github.com/chewxy/hm"
	"gonum.org/v1/gonum/blas"
	"gorgonia.org/gorgonia"

	"gearshift/router/nn"
)

// Layer is a dense layer of a graph, y = x·w + b, rectified if Rectified. In all layers
// but the first x is what another has rectified, and the gradient of x is that from
// before the rectification.
type Layer struct {
	First, Rectified bool
	Out              []float32 // where y goes; nil is memory of its own
	Weights, Biases  []float32 // where their gradients go
}

// Dense applies a layer to x of shape (rows, in), with w of shape (in, out) and b of
// shape (out).
func (g *Graph) Dense(l Layer, x, w, b *gorgonia.Node) *gorgonia.Node {
	if g.err != nil {
		return nil
	}
	op := &denseOp{graph: g, Layer: l}
	op.Op, op.y = g.NewOp("dense", []hm.Type{Matrix, Matrix, Vector}, l.Out, x.Shape()[0], w.Shape()[1])
	return g.Apply(op, x, w, b)
}

// denseOp is a layer. In the first x is the observation, which needs no gradient.
type denseOp struct {
	Op
	Layer
	graph *Graph
	y     []float32
}

// Do computes the layer.
func (o *denseOp) Do(v ...gorgonia.Value) (gorgonia.Value, error) {
	Forward(o.y, Floats(v[0]), Floats(v[1]), Floats(v[2]), o.Shape[0], o.Rectified)
	return o.Op.Out, nil
}

// DiffWRT names the inputs that have a gradient.
func (o *denseOp) DiffWRT(int) []bool { return []bool{!o.First, true, true} }

// SymDiff builds the nodes of the layer's gradients.
func (o *denseOp) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	g, n, out := o.graph, o.Shape[0], o.Shape[1]
	x, w := in[0], in[1]
	f, dw := g.NewOp("weight gradient", []hm.Type{Matrix, Matrix}, o.Weights, w.Shape()...)
	dwNode := g.Apply(&Backward{f, func(v ...gorgonia.Value) { WeightGradient(dw, Floats(v[0]), Floats(v[1]), n, out) }}, x, grad)
	f, db := g.NewOp("bias gradient", []hm.Type{Matrix}, o.Biases, out)
	dbNode := g.Apply(&Backward{f, func(v ...gorgonia.Value) { BiasGradient(db, Floats(v[0])) }}, grad)
	var dxNode *gorgonia.Node
	if !o.First {
		f, dx := g.NewOp("input gradient", []hm.Type{Matrix, Matrix, Matrix}, nil, x.Shape()...)
		dxNode = g.Apply(&Backward{f, func(v ...gorgonia.Value) {
			InputGradient(dx, Floats(v[0]), Floats(v[1]), Floats(v[2]), n, out)
		}}, grad, w, x)
	}
	return gorgonia.Nodes{dxNode, dwNode, dbNode}, g.err
}

// The arithmetic of a dense layer over a batch of n rows, all row-major. Each
// function writes every element of its first argument.

// Forward computes y = x·w + b, then ReLU if asked.
func Forward(y, x, w, b []float32, n int, relu bool) {
	out := len(b)
	in := len(w) / out
	for r := range n {
		copy(y[r*out:(r+1)*out], b)
	}
	library.Sgemm(blas.NoTrans, blas.NoTrans, n, out, in, 1, x, in, w, out, 1, y, out)
	if relu {
		nn.Rectify(y)
	}
}

// InputGradient computes dx = g·wᵀ where x is positive, else 0: the gradient before
// the rectification whose result x is. Columns of g: out.
func InputGradient(dx, g, w, x []float32, n, out int) {
	in := len(w) / out
	library.Sgemm(blas.NoTrans, blas.Trans, n, in, out, 1, g, out, w, out, 0, dx, in)
	nn.Unrectify(dx, x)
}

// WeightGradient computes dw = xᵀ·g, where g has out columns.
func WeightGradient(dw, x, g []float32, n, out int) {
	in := len(dw) / out
	library.Sgemm(blas.Trans, blas.NoTrans, in, out, n, 1, x, in, g, out, 0, dw, out)
}

// BiasGradient sums the rows of g.
func BiasGradient(db, g []float32) {
	clear(db)
	nn.AddRows(db, g)
}
