package fused

import (
	"strings"
	"testing"

	"gorgonia.org/gorgonia"
)

// The result of an operation of Gorgonia's own lies elsewhere after each run, where a
// program would not look.
func TestProgramsRefuseOperationsThatAreNotFused(t *testing.T) {
	g := &Graph{ExprGraph: gorgonia.NewGraph()}
	x := g.Variable("x", []float32{1, 2}, 2)
	gorgonia.Must(gorgonia.Square(x))
	if _, err := newProgram(g.ExprGraph); err == nil || !strings.Contains(err.Error(), "not fused") {
		t.Errorf("a graph with a square of Gorgonia's gives %v", err)
	}
}
