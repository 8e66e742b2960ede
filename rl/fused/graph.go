// Package fused is gradients by Gorgonia in few operations: each computes a whole layer
// into memory that it keeps, and a graph of them runs as a list. Gorgonia derives the
// graph of the gradients. Matrices are multiplied by gonum, in pure Go, or with build tag
// openblas by OpenBLAS; the numbers of one differ from those of the other in the last
// bits.
package fused

import (
	"sync"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// building guards the construction of graphs: Gorgonia's shared constants cache
// their hash at first use.
var building sync.Mutex

// Graph is a Gorgonia graph of fused operations. It keeps the first error.
type Graph struct {
	*gorgonia.ExprGraph
	operations int
	err        error
}

// Build has build make a graph, from variables to a scalar cost, and returns its program
// with that of the gradients in the parameters.
func Build(build func(g *Graph) (cost *gorgonia.Node, parameters gorgonia.Nodes)) (Program, error) {
	building.Lock()
	defer building.Unlock()
	g := &Graph{ExprGraph: gorgonia.NewGraph()}
	cost, parameters := build(g)
	if g.err != nil {
		return nil, g.err
	}
	if _, err := gorgonia.Grad(cost, parameters...); err != nil {
		return nil, err
	}
	return newProgram(g.ExprGraph)
}

// Variable is an input node whose value lies in backing.
func (g *Graph) Variable(name string, backing any, shape ...int) *gorgonia.Node {
	t := tensor.New(tensor.WithShape(shape...), tensor.WithBacking(backing))
	return gorgonia.NewTensor(g.ExprGraph, t.Dtype(), t.Dims(), gorgonia.WithName(name),
		gorgonia.WithShape(shape...), gorgonia.WithValue(t))
}

// Apply applies an operation, unless an earlier one has failed.
func (g *Graph) Apply(op gorgonia.Op, inputs ...*gorgonia.Node) *gorgonia.Node {
	if g.err != nil {
		return nil
	}
	n, err := gorgonia.ApplyOp(op, inputs...)
	g.err = err
	return n
}

// Err is why an operation could not be applied.
func (g *Graph) Err() error { return g.err }
