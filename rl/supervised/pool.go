package supervised

import (
	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"

	"gearshift/rl/fused"
	"gearshift/router/nn"
)

// pooling takes the mean of each group of positions: from rows for each position of one
// example after the other to a row for each example, with the groups one after the other.
type pooling struct {
	width  int // of a position
	groups []int
	share  []float32 // that a position of each group has in the mean
}

func newPooling(e *Encoder) *pooling {
	p := &pooling{width: e.Each[len(e.Each)-1], groups: e.Groups}
	for _, n := range e.sizes() {
		p.share = append(p.share, 1/float32(n))
	}
	return p
}

// each calls visit with the part of each position, and of its group.
func (p *pooling) each(whole, positions []float32, visit func(group, position []float32, share float32)) {
	for at := range len(positions) / p.width {
		example, g := at/len(p.groups), p.groups[at%len(p.groups)]
		from := (example*len(p.share) + g) * p.width
		visit(whole[from:from+p.width], positions[at*p.width:(at+1)*p.width], p.share[g])
	}
}

func (p *pooling) forward(y, x []float32) {
	clear(y)
	p.each(y, x, func(group, position []float32, _ float32) { nn.AddRows(group, position) })
	for g := range len(y) / p.width {
		share := p.share[g%len(p.share)]
		for i := range p.width {
			y[g*p.width+i] *= share
		}
	}
}

// gradient writes that of the positions, from before the rectification whose result x is.
func (p *pooling) gradient(dx, dy, x []float32) {
	p.each(dy, dx, func(group, position []float32, share float32) {
		for i, g := range group {
			position[i] = g * share
		}
	})
	nn.Unrectify(dx, x)
}

// poolOp is pooling as an operation of a graph.
type poolOp struct {
	fused.Op
	*pooling
	graph *fused.Graph
	y     []float32
}

func newPoolOp(g *fused.Graph, p *pooling, rows int) *poolOp {
	op, y := g.NewOp("pool", []hm.Type{fused.Matrix}, nil, rows, p.width*len(p.share))
	return &poolOp{Op: op, pooling: p, graph: g, y: y}
}

// Do computes the means.
func (o *poolOp) Do(v ...gorgonia.Value) (gorgonia.Value, error) {
	o.forward(o.y, fused.Floats(v[0]))
	return o.Out, nil
}

// DiffWRT names the one input, which has a gradient.
func (o *poolOp) DiffWRT(int) []bool { return []bool{true} }

// SymDiff builds the node of the gradient.
func (o *poolOp) SymDiff(in gorgonia.Nodes, _, dy *gorgonia.Node) (gorgonia.Nodes, error) {
	f, dx := o.graph.NewOp("pool gradient", []hm.Type{fused.Matrix, fused.Matrix}, nil, in[0].Shape()...)
	node := o.graph.Apply(&fused.Backward{Op: f, Compute: func(v ...gorgonia.Value) {
		o.gradient(dx, fused.Floats(v[0]), fused.Floats(v[1]))
	}}, dy, in[0])
	return gorgonia.Nodes{node}, o.graph.Err()
}
