package dqn

import (
	"fmt"
	"hash"
	"hash/fnv"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// fusedOp is what the package's operations share. Stock Gorgonia splits a dense
// layer into some ten operations and allocates all their results again at each
// run; a fused operation computes its result in one go, into a buffer that it
// keeps. So each node of the graph needs an operation of its own.
type fusedOp struct {
	name   string
	id     int // unique within the graph
	inputs []hm.Type
	shape  tensor.Shape // of the result
	out    gorgonia.Value
}

// newFused makes the shared part of an operation with a matrix or vector of the
// given shape as its result, which lies in buffer if that is not nil.
func (g *graph) newFused(name string, inputs []hm.Type, buffer []float32, shape ...int) (fusedOp, []float32) {
	if buffer == nil {
		buffer = make([]float32, tensor.Shape(shape).TotalSize())
	}
	g.operations++
	out := tensor.New(tensor.WithShape(shape...), tensor.WithBacking(buffer))
	return fusedOp{name: name, id: g.operations, inputs: inputs, shape: shape, out: out}, buffer
}

var (
	floatMatrix = gorgonia.TensorType{Dims: 2, Of: tensor.Float32}
	floatVector = gorgonia.TensorType{Dims: 1, Of: tensor.Float32}
	intVector   = gorgonia.TensorType{Dims: 1, Of: tensor.Int32}
	denseInputs = []hm.Type{floatMatrix, floatMatrix, floatVector}
)

// Arity is the number of inputs.
func (o *fusedOp) Arity() int { return len(o.inputs) }

// Type is the function type, inputs to result.
func (o *fusedOp) Type() hm.Type {
	var result hm.Type = tensor.Float32
	if o.shape.Dims() > 0 {
		result = gorgonia.TensorType{Dims: o.shape.Dims(), Of: tensor.Float32}
	}
	return hm.NewFnType(append(append([]hm.Type{}, o.inputs...), result)...)
}

// InferShape is the result's shape, which is known from the start.
func (o *fusedOp) InferShape(...gorgonia.DimSizer) (tensor.Shape, error) { return o.shape, nil }

// result is where it lies, from the first run on.
func (o *fusedOp) result() gorgonia.Value { return o.out }

// ReturnsPtr is true: the result is the operation's own buffer.
func (o *fusedOp) ReturnsPtr() bool { return true }

// CallsExtern is false: what is external to Gorgonia are its own devices.
func (o *fusedOp) CallsExtern() bool { return false }

// OverwritesInput is -1: no input is written to.
func (o *fusedOp) OverwritesInput() int { return -1 }

// WriteHash distinguishes this operation from every other of its graph: equal hashes
// would let the graph merge two operations, and their buffers.
func (o *fusedOp) WriteHash(h hash.Hash) { fmt.Fprintf(h, "gearshift %s %d", o.name, o.id) }

// Hashcode is unique within the graph.
func (o *fusedOp) Hashcode() uint32 {
	h := fnv.New32a()
	o.WriteHash(h)
	return h.Sum32()
}

// String names the operation and the node it serves.
func (o *fusedOp) String() string { return fmt.Sprintf("%s#%d", o.name, o.id) }

// floats is the memory of a float32 tensor value.
func floats(v gorgonia.Value) []float32 { return v.(*tensor.Dense).Float32s() }

// denseOp is y = x·w + b, rectified if relu. In all layers but the first x is what another
// has rectified, and the gradient of x is that from before the rectification.
type denseOp struct {
	fusedOp
	graph *graph
	y     []float32
	relu  bool
	layer int // in the first x is the observation, which needs no gradient
}

// Do computes the layer.
func (o *denseOp) Do(v ...gorgonia.Value) (gorgonia.Value, error) {
	forward(o.y, floats(v[0]), floats(v[1]), floats(v[2]), o.shape[0], o.relu)
	return o.out, nil
}

// DiffWRT names the inputs that have a gradient.
func (o *denseOp) DiffWRT(int) []bool { return []bool{o.layer > 0, true, true} }

// SymDiff builds the nodes of the layer's gradients.
func (o *denseOp) SymDiff(in gorgonia.Nodes, _, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	g, n, out := o.graph, o.shape[0], o.shape[1]
	x, w := in[0], in[1]
	var b builder
	f, dw := g.newFused("weight gradient", []hm.Type{floatMatrix, floatMatrix}, g.gradients.Weights[o.layer], w.Shape()...)
	dwNode := b.apply(&elementOp{f, func(v ...gorgonia.Value) { weightGradient(dw, floats(v[0]), floats(v[1]), n, out) }}, x, grad)
	f, db := g.newFused("bias gradient", []hm.Type{floatMatrix}, g.gradients.Biases[o.layer], out)
	dbNode := b.apply(&elementOp{f, func(v ...gorgonia.Value) { biasGradient(db, floats(v[0])) }}, grad)
	var dxNode *gorgonia.Node
	if o.layer > 0 {
		f, dx := g.newFused("input gradient", []hm.Type{floatMatrix, floatMatrix, floatMatrix}, nil, x.Shape()...)
		dxNode = b.apply(&elementOp{f, func(v ...gorgonia.Value) {
			inputGradient(dx, floats(v[0]), floats(v[1]), floats(v[2]), n, out)
		}}, grad, w, x)
	}
	return gorgonia.Nodes{dxNode, dwNode, dbNode}, b.err
}

// duelOp is the values of the actions from the outputs of a dueling head.
type duelOp struct {
	fusedOp
	graph *graph
	q     []float32
}

func (g *graph) newDuel(n, actions int) *duelOp {
	f, q := g.newFused("duel", []hm.Type{floatMatrix}, nil, n, actions)
	return &duelOp{fusedOp: f, graph: g, q: q}
}

// Do computes the values.
func (o *duelOp) Do(v ...gorgonia.Value) (gorgonia.Value, error) {
	combine(o.q, floats(v[0]), o.shape[1])
	return o.out, nil
}

// DiffWRT names the one input, which has a gradient.
func (o *duelOp) DiffWRT(int) []bool { return []bool{true} }

// SymDiff builds the node of the gradient.
func (o *duelOp) SymDiff(in gorgonia.Nodes, _, dy *gorgonia.Node) (gorgonia.Nodes, error) {
	f, dx := o.graph.newFused("duel gradient", []hm.Type{floatMatrix}, nil, in[0].Shape()...)
	var b builder
	node := b.apply(&elementOp{f, func(v ...gorgonia.Value) { combineGradient(dx, floats(v[0]), o.shape[1]) }}, dy)
	return gorgonia.Nodes{node}, b.err
}

// elementOp is an operation of the backward pass, which has no gradient itself.
type elementOp struct {
	fusedOp
	compute func(inputs ...gorgonia.Value)
}

// Do computes the operation.
func (o *elementOp) Do(v ...gorgonia.Value) (gorgonia.Value, error) {
	o.compute(v...)
	return o.out, nil
}

// builder applies operations until one fails, and keeps that error.
type builder struct{ err error }

func (b *builder) apply(op gorgonia.Op, inputs ...*gorgonia.Node) *gorgonia.Node {
	if b.err != nil {
		return nil
	}
	n, err := gorgonia.ApplyOp(op, inputs...)
	b.err = err
	return n
}
