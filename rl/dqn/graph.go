package dqn

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"gearshift/rl/fused"
	"gearshift/router/nn"
)

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

	loss    *huberOp
	program fused.Program
}

// newGraph builds the graph of network, whose weights it reads in place at each
// run, for n rows of a batch of so many. The gradients go into the memory of gradients.
func newGraph(network *network, gradients *nn.MLP, n, batch int, delta float32) (*graph, error) {
	g := &graph{
		gradients:    gradients,
		observations: make([]float32, n*network.Inputs()),
		hidden:       newHidden(network.MLP, n),
		actions:      make([]int32, n),
		targets:      make([]float32, n),
		weights:      make([]float32, n),
	}
	var err error
	g.program, err = fused.Build(func(f *fused.Graph) (*gorgonia.Node, gorgonia.Nodes) { return g.build(f, network, n, batch, delta) })
	return g, err
}

// build adds the nodes of the loss, and returns it with the network's parameters.
func (g *graph) build(f *fused.Graph, network *network, n, batch int, delta float32) (*gorgonia.Node, gorgonia.Nodes) {
	layer := f.Variable("observations", g.observations, n, network.Inputs())
	var parameters gorgonia.Nodes
	for i := range network.Weights {
		in, out := network.Sizes[i], network.Sizes[i+1]
		w := f.Variable(fmt.Sprintf("w%d", i), network.Weights[i], in, out)
		bias := f.Variable(fmt.Sprintf("b%d", i), network.Biases[i], out)
		parameters = append(parameters, w, bias)
		l := fused.Layer{First: i == 0, Weights: g.gradients.Weights[i], Biases: g.gradients.Biases[i]}
		if i < len(g.hidden) {
			l.Rectified, l.Out = true, g.hidden[i]
		}
		layer = f.Dense(l, layer, w, bias)
	}
	if network.dueling {
		layer = f.Apply(newDuel(f, n, network.q.Outputs()), layer)
	}
	g.loss = newHuber(f, n, batch, delta)
	return f.Apply(g.loss, layer, f.Variable("actions", g.actions, n),
		f.Variable("targets", g.targets, n), f.Variable("weights", g.weights, n)), parameters
}

// run computes the loss and the gradients from what lies in observations,
// actions, targets and weights.
func (g *graph) run() error { return g.program.Run() }
