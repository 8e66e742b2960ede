package checkpoints

import (
	"fmt"

	"gearshift/checkpoints/onnxfile"
	"gearshift/router/nn"
)

// float32Type is the TensorProto.DataType of float32.
const float32Type = onnxfile.Float32

// writeONNX makes a ModelProto: Gemm, Relu, Gemm, and so on. The weights stand as
// they do in memory, row = input, so no Gemm transposes.
func writeONNX(n *nn.MLP) onnxfile.Message {
	g := onnxfile.Graph{Name: "policy"}
	at := ONNXInput
	last := len(n.Weights) - 1
	for i := range n.Weights {
		weights, bias, out := fmt.Sprintf("weights%d", i), fmt.Sprintf("bias%d", i), fmt.Sprintf("layer%d", i)
		g.Reals(weights, n.Weights[i], n.Sizes[i], n.Sizes[i+1])
		g.Reals(bias, n.Biases[i], n.Sizes[i+1])
		if i == last {
			out = ONNXOutput
		}
		g.NamedNode(fmt.Sprintf("dense%d", i), "Gemm", []string{at, weights, bias}, []string{out})
		if at = out; i < last {
			at = fmt.Sprintf("relu%d", i)
			g.Node("Relu", []string{out}, []string{at})
		}
	}
	g.Input(ONNXInput, onnxfile.Float32, onnxfile.Any("batch"), onnxfile.Fixed(n.Inputs()))
	g.Output(ONNXOutput, onnxfile.Float32, onnxfile.Any("batch"), onnxfile.Fixed(n.Outputs()))
	return g.Model()
}
