package dqn

import "gearshift/router/nn"

// network is a multilayer perceptron whose parameters lie in one block. With a
// dueling head its last layer has one output for the value of the observation
// and one for the advantage of each action (Wang et al. 2016):
//
//	Q(s, a) = V(s) + A(s, a) − mean over a' of A(s, a')
//
// Since that is linear, the network of values q has a plain last layer that is
// folded from it; its hidden layers are the same memory.
type network struct {
	*nn.MLP
	flat    []float32
	q       *nn.MLP
	dueling bool
}

// newNetwork makes a network of zero weights; each layer's weights are followed
// by its biases. The last size is the number of actions.
func newNetwork(sizes []int, dueling bool) (network, error) {
	q, err := nn.New(sizes...)
	if err != nil {
		return network{}, err
	}
	n := network{MLP: q, q: q, dueling: dueling}
	last := len(q.Weights) - 1
	if dueling {
		sizes = append([]int{}, sizes...)
		sizes[last+1]++
		if n.MLP, err = nn.New(sizes...); err != nil {
			return network{}, err
		}
	}
	n.flat = make([]float32, n.Parameters())
	rest := n.flat
	for i := range n.Weights {
		w, b := len(n.Weights[i]), len(n.Biases[i])
		n.Weights[i], n.Biases[i] = rest[:w:w], rest[w:w+b:w+b]
		rest = rest[w+b:]
		if i < last {
			q.Weights[i], q.Biases[i] = n.Weights[i], n.Biases[i]
		}
	}
	return n, nil
}

// fold brings q up to date with the parameters.
func (n *network) fold() {
	if !n.dueling {
		return
	}
	last := len(n.Weights) - 1
	combine(n.q.Weights[last], n.Weights[last], n.q.Outputs())
	combine(n.q.Biases[last], n.Biases[last], n.q.Outputs())
}

// unfold makes the parameters those of q, up to what folding loses.
func (n *network) unfold(m *nn.MLP) {
	for i := range m.Weights {
		copy(n.q.Weights[i], m.Weights[i])
		copy(n.q.Biases[i], m.Biases[i])
	}
	if !n.dueling {
		return
	}
	last := len(n.Weights) - 1
	split(n.Weights[last], n.q.Weights[last], n.q.Outputs())
	split(n.Biases[last], n.q.Biases[last], n.q.Outputs())
}

// combine writes V + A − mean(A) for each row (V, A…) of x into q, whose rows
// hold one number for each action.
func combine(q, x []float32, actions int) {
	for len(q) > 0 {
		v, a := x[0], x[1:1+actions]
		var sum float32
		for _, advantage := range a {
			sum += advantage
		}
		base := v - sum/float32(actions)
		for i, advantage := range a {
			q[i] = base + advantage
		}
		q, x = q[actions:], x[1+actions:]
	}
}

// split writes a row (V, A…) into x for each row of q, so that combine gives q.
func split(x, q []float32, actions int) {
	for len(q) > 0 {
		var sum float32
		for i, value := range q[:actions] {
			x[1+i] = value
			sum += value
		}
		x[0] = sum / float32(actions)
		q, x = q[actions:], x[1+actions:]
	}
}

// combineGradient writes the gradient in each row (V, A…) into dx, from that in
// q: dV = Σ dq, dA = dq − mean(dq).
func combineGradient(dx, dq []float32, actions int) {
	for len(dq) > 0 {
		var sum float32
		for _, d := range dq[:actions] {
			sum += d
		}
		dx[0] = sum
		for i, d := range dq[:actions] {
			dx[1+i] = d - sum/float32(actions)
		}
		dq, dx = dq[actions:], dx[1+actions:]
	}
}
