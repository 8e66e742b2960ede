package dqn

import (
	"fmt"
	"sync"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"gearshift/router/nn"
)

// building guards the construction of graphs: Gorgonia's shared constants cache
// their hash at first use.
var building sync.Mutex

// graph is the differentiable part of a step: from rows of observations, actions,
// targets and weights of the samples to their part of the batch's loss and its
// gradient in every weight of the network. Gorgonia derives it; its program runs over
// memory that stays where it is.
type graph struct {
	gradients *nn.MLP // each run writes them, in the shape of the network

	observations []float32
	hidden       [][]float32 // outputs of the hidden layers
	actions      []int32
	targets      []float32
	weights      []float32

	loss       *huberOp
	program    program
	operations int
}

// newGraph builds the graph of network, whose weights it reads in place at each
// run, for n rows of a batch of so many. The gradients go into the memory of gradients.
func newGraph(network *network, gradients *nn.MLP, n, batch int, delta float32) (*graph, error) {
	building.Lock()
	defer building.Unlock()
	g := &graph{
		gradients:    gradients,
		observations: make([]float32, n*network.Inputs()),
		hidden:       newHidden(network.MLP, n),
		actions:      make([]int32, n),
		targets:      make([]float32, n),
		weights:      make([]float32, n),
	}
	e := gorgonia.NewGraph()
	layer := variable(e, "observations", g.observations, n, network.Inputs())
	var b builder
	var parameters gorgonia.Nodes
	for i := range network.Weights {
		in, out := network.Sizes[i], network.Sizes[i+1]
		w := variable(e, fmt.Sprintf("w%d", i), network.Weights[i], in, out)
		bias := variable(e, fmt.Sprintf("b%d", i), network.Biases[i], out)
		parameters = append(parameters, w, bias)
		layer = b.apply(g.newDense(i, n, out), layer, w, bias)
	}
	if network.dueling {
		layer = b.apply(g.newDuel(n, network.q.Outputs()), layer)
	}
	g.loss = g.newHuber(n, batch, delta)
	cost := b.apply(g.loss, layer, variable(e, "actions", g.actions, n),
		variable(e, "targets", g.targets, n), variable(e, "weights", g.weights, n))
	if b.err != nil {
		return nil, b.err
	}
	if _, err := gorgonia.Grad(cost, parameters...); err != nil {
		return nil, err
	}
	var err error
	g.program, err = newProgram(e)
	return g, err
}

func (g *graph) newDense(layer, n, out int) *denseOp {
	var buffer []float32
	relu := layer < len(g.hidden)
	if relu {
		buffer = g.hidden[layer]
	}
	f, y := g.newFused("dense", denseInputs, buffer, n, out)
	return &denseOp{fusedOp: f, graph: g, y: y, relu: relu, layer: layer}
}

// variable is an input node whose value lies in backing.
func variable(e *gorgonia.ExprGraph, name string, backing any, shape ...int) *gorgonia.Node {
	t := tensor.New(tensor.WithShape(shape...), tensor.WithBacking(backing))
	return gorgonia.NewTensor(e, t.Dtype(), t.Dims(), gorgonia.WithName(name),
		gorgonia.WithShape(shape...), gorgonia.WithValue(t))
}

// run computes the loss and the gradients from what lies in observations,
// actions, targets and weights.
func (g *graph) run() error { return g.program.run() }
