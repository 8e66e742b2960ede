package fused

import (
	"fmt"
	"hash"
	"hash/fnv"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Op is what fused operations share; one of them embeds it, and adds Do, DiffWRT and
// SymDiff. Stock Gorgonia splits a dense layer into some ten operations and allocates all
// their results again at each run; a fused operation computes its result in one go, into
// a buffer that it keeps. So each node of the graph needs an operation of its own.
type Op struct {
	Shape tensor.Shape   // of the result
	Out   gorgonia.Value // the result, from the first run on

	name   string
	id     int // unique within the graph
	inputs []hm.Type
}

// NewOp makes the shared part of an operation with a matrix or vector of the
// given shape as its result, which lies in buffer if that is not nil.
func (g *Graph) NewOp(name string, inputs []hm.Type, buffer []float32, shape ...int) (Op, []float32) {
	if buffer == nil {
		buffer = make([]float32, tensor.Shape(shape).TotalSize())
	}
	out := tensor.New(tensor.WithShape(shape...), tensor.WithBacking(buffer))
	return g.newOp(name, inputs, shape, out), buffer
}

// NewScalarOp makes the shared part of an operation with a number as its result.
func (g *Graph) NewScalarOp(name string, inputs []hm.Type) (Op, *gorgonia.F32) {
	out := gorgonia.NewF32(0)
	return g.newOp(name, inputs, tensor.ScalarShape(), out), out
}

func (g *Graph) newOp(name string, inputs []hm.Type, shape tensor.Shape, out gorgonia.Value) Op {
	g.operations++
	return Op{name: name, id: g.operations, inputs: inputs, Shape: shape, Out: out}
}

// The types of inputs.
var (
	Matrix    = gorgonia.TensorType{Dims: 2, Of: tensor.Float32}
	Vector    = gorgonia.TensorType{Dims: 1, Of: tensor.Float32}
	IntVector = gorgonia.TensorType{Dims: 1, Of: tensor.Int32}
)

// Inputs are the types of the operation's inputs.
func (o *Op) Inputs() []hm.Type { return o.inputs }

// Arity is the number of inputs.
func (o *Op) Arity() int { return len(o.inputs) }

// Type is the function type, inputs to result.
func (o *Op) Type() hm.Type {
	var result hm.Type = tensor.Float32
	if o.Shape.Dims() > 0 {
		result = gorgonia.TensorType{Dims: o.Shape.Dims(), Of: tensor.Float32}
	}
	return hm.NewFnType(append(append([]hm.Type{}, o.inputs...), result)...)
}

// InferShape is the result's shape, which is known from the start.
func (o *Op) InferShape(...gorgonia.DimSizer) (tensor.Shape, error) { return o.Shape, nil }

// result is where it lies, from the first run on.
func (o *Op) result() gorgonia.Value { return o.Out }

// ReturnsPtr is true: the result is the operation's own buffer.
func (o *Op) ReturnsPtr() bool { return true }

// CallsExtern is false: what is external to Gorgonia are its own devices.
func (o *Op) CallsExtern() bool { return false }

// OverwritesInput is -1: no input is written to.
func (o *Op) OverwritesInput() int { return -1 }

// WriteHash distinguishes this operation from every other of its graph: equal hashes
// would let the graph merge two operations, and their buffers.
func (o *Op) WriteHash(h hash.Hash) { fmt.Fprintf(h, "gearshift %s %d", o.name, o.id) }

// Hashcode is unique within the graph.
func (o *Op) Hashcode() uint32 {
	h := fnv.New32a()
	o.WriteHash(h)
	return h.Sum32()
}

// String names the operation and the node it serves.
func (o *Op) String() string { return fmt.Sprintf("%s#%d", o.name, o.id) }

// Floats is the memory of a float32 tensor value.
func Floats(v gorgonia.Value) []float32 { return v.(*tensor.Dense).Float32s() }

// Backward is an operation of the backward pass, which has no gradient itself.
type Backward struct {
	Op
	Compute func(inputs ...gorgonia.Value)
}

// Do computes the operation.
func (o *Backward) Do(v ...gorgonia.Value) (gorgonia.Value, error) {
	o.Compute(v...)
	return o.Out, nil
}
