package fused

import (
	"fmt"
	"slices"

	"gorgonia.org/gorgonia"
)

// Program is the operations of a graph, each after those that it takes its inputs from.
// A run computes them and does nothing else (docs/decisions/0001-go-and-gorgonia-with-fused-operations.md).
type Program []instruction

type instruction struct {
	op     gorgonia.Op
	inputs []gorgonia.Value
}

// newProgram refuses a graph with an operation that is not fused: its result may lie
// elsewhere after each run.
func newProgram(e *gorgonia.ExprGraph) (Program, error) {
	nodes, err := gorgonia.Sort(e)
	if err != nil {
		return nil, err
	}
	var p Program
	values := map[int64]gorgonia.Value{} // by node
	for _, n := range slices.Backward(nodes) {
		if v := n.Value(); v != nil { // a variable or a constant
			values[n.ID()] = v
			continue
		}
		op, ok := n.Op().(interface{ result() gorgonia.Value })
		if !ok {
			return nil, fmt.Errorf("cannot run operation %v, which is not fused", n.Op())
		}
		i := instruction{op: n.Op()}
		for in := e.From(n.ID()); in.Next(); {
			i.inputs = append(i.inputs, values[in.Node().ID()])
		}
		p = append(p, i)
		values[n.ID()] = op.result()
	}
	return p, nil
}

// Run computes all operations.
func (p Program) Run() error {
	for _, i := range p {
		if _, err := i.op.Do(i.inputs...); err != nil {
			return fmt.Errorf("%v: %w", i.op, err)
		}
	}
	return nil
}
