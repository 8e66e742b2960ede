package models

import (
	"fmt"

	"gearshift/checkpoints/onnxfile"
)

// optionalConstants writes what optional needs, for so many labels.
func (g *graph) optionalConstants(labels int) {
	g.Reals("nothing", []float32{0})
	g.Wholes("zero_1", []int64{0}, 1)
	g.Wholes("axis_1", []int64{1}, 1)
	g.Wholes("labels", []int64{int64(labels)}, 1)
	for m := range modalityNames {
		g.Wholes(fmt.Sprintf("column%d", m), []int64{int64(m)}, 1)
	}
	rows := g.op("Gather", []string{g.op("Shape", []string{ModalityMask}), "zero_1"})
	g.Node("Concat", []string{rows, "labels"}, []string{"logits_shape"}, onnxfile.Whole("axis", 0))
}

// optional is the logits of one modality, zero if no row has it: encode, which writes its
// encoder into a graph of its own, then does not run.
func (g *graph) optional(m, labels int, encode func(inner *graph) string) string {
	name := modalityNames[m]
	column := g.op("Gather", []string{ModalityMask, fmt.Sprintf("column%d", m)}, onnxfile.Whole("axis", 1))
	wanted := g.op("Greater", []string{g.op("ReduceMax", []string{column}, onnxfile.Whole("keepdims", 0)), "nothing"})
	there := &graph{Graph: onnxfile.Graph{Name: name}, prefix: name + "_"}
	out := encode(there)
	there.Graph.Output(out, onnxfile.Float32, onnxfile.Any("batch_size"), onnxfile.Fixed(labels))
	absent := &onnxfile.Graph{Name: "no_" + name}
	absent.Node("ConstantOfShape", []string{"logits_shape"}, []string{"no_" + name})
	absent.Output("no_"+name, onnxfile.Float32, onnxfile.Any("batch_size"), onnxfile.Fixed(labels))
	return g.op("If", []string{wanted}, onnxfile.Branch("then_branch", &there.Graph), onnxfile.Branch("else_branch", absent))
}
