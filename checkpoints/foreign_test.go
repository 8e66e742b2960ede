package checkpoints_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"gearshift/checkpoints"
	"gearshift/router/nn"
)

// proto is a protobuf message, made by other means than the package's.
type proto []byte

func number(field protowire.Number, v int64) proto {
	return protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.VarintType), uint64(v))
}

func float(field protowire.Number, v float32) proto {
	return protowire.AppendFixed32(protowire.AppendTag(nil, field, protowire.Fixed32Type), math.Float32bits(v))
}

func bytesOf[T ~[]byte | ~string](field protowire.Number, b T) proto {
	return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), []byte(b))
}

func join(parts ...proto) proto { return slices.Concat(parts...) }

// graph is an ONNX file in parts, each of which a test may spoil.
type graph struct {
	opset         int64
	nodes         []proto
	tensors       []proto
	input, output proto
	more          proto // of the model
}

func (g *graph) model() proto {
	var body proto
	for _, n := range g.nodes {
		body = append(body, bytesOf(1, n)...)
	}
	body = append(body, bytesOf(2, "main_graph")...)
	for _, t := range g.tensors {
		body = append(body, bytesOf(5, t)...)
	}
	body = join(body, bytesOf(11, g.input), bytesOf(12, g.output))
	return join(number(1, 7), bytesOf(2, "pytorch"), bytesOf(3, "2.3.0"), bytesOf(7, body),
		bytesOf(8, join(bytesOf(1, ""), number(2, g.opset))), g.more)
}

// node is a NodeProto; its output is out.
func node(op, out string, inputs []string, attributes ...proto) proto {
	var n proto
	for _, in := range inputs {
		n = append(n, bytesOf(1, in)...)
	}
	n = join(n, bytesOf(2, out), bytesOf(3, "/q_net/"+out), bytesOf(4, op))
	for _, a := range attributes {
		n = append(n, bytesOf(5, a)...)
	}
	return n
}

func in(names ...string) []string { return names }

// PyTorch says the type of each attribute.
func wholeModel(name string, v int64) proto {
	return join(bytesOf(1, name), number(3, v), number(20, 2))
}

func real(name string, v float32) proto {
	return join(bytesOf(1, name), float(2, v), number(20, 1))
}

// raw is a TensorProto with raw data.
func raw(name string, v []float32, dims ...int64) proto {
	var data []byte
	for _, x := range v {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	return join(shape(dims...), number(2, 1), bytesOf(8, name), bytesOf(9, data))
}

// floats is a TensorProto with float_data, packed or not, and packed dims.
func floats(name string, v []float32, packed bool, dims ...int64) proto {
	var data, packedDims proto
	for _, x := range v {
		if packed {
			data = protowire.AppendFixed32(data, math.Float32bits(x))
		} else {
			data = append(data, float(4, x)...)
		}
	}
	if packed {
		data = bytesOf(4, data)
	}
	for _, d := range dims {
		packedDims = protowire.AppendVarint(packedDims, uint64(d))
	}
	return join(bytesOf(1, packedDims), number(2, 1), data, bytesOf(8, name))
}

func shape(dims ...int64) proto {
	var p proto
	for _, d := range dims {
		p = append(p, number(1, d)...)
	}
	return p
}

// info is a ValueInfoProto of float32; the first dimension is named.
func info(name string, kind int64, dims ...int64) proto {
	shape := bytesOf(1, bytesOf(2, "batch_size"))
	for _, d := range dims {
		shape = append(shape, bytesOf(1, number(1, d))...)
	}
	return join(bytesOf(1, name), bytesOf(2, bytesOf(1, join(number(1, kind), bytesOf(2, shape)))))
}

func transposed(v []float32, rows, columns int) []float32 {
	out := make([]float32, 0, len(v))
	for c := range columns {
		for r := range rows {
			out = append(out, v[r*columns+c])
		}
	}
	return out
}

// baselines is n as torch.onnx writes the q_net of a DQN policy of
// stable-baselines3: Flatten, then Gemm with transposed weights and Relu.
func baselines(n *nn.MLP) *graph {
	g := &graph{opset: 17, input: info("obs", 1, int64(n.Inputs())), output: info("q_values", 1, int64(n.Outputs()))}
	g.nodes = append(g.nodes, node("Flatten", "flat", in("obs"), wholeModel("axis", 1)))
	at := "flat"
	for i, w := range n.Weights {
		rows, columns := n.Sizes[i], n.Sizes[i+1]
		weights, bias, out := fmt.Sprintf("q_net.%d.weight", 2*i), fmt.Sprintf("q_net.%d.bias", 2*i), fmt.Sprintf("gemm%d", i)
		g.tensors = append(g.tensors, raw(weights, transposed(w, rows, columns), int64(columns), int64(rows)), raw(bias, n.Biases[i], int64(columns)))
		if i == len(n.Weights)-1 {
			out = "q_values"
		}
		g.nodes = append(g.nodes, node("Gemm", out, in(at, weights, bias), real("alpha", 1), real("beta", 1), wholeModel("transB", 1)))
		if at = out; out != "q_values" {
			at = fmt.Sprintf("relu%d", i)
			g.nodes = append(g.nodes, node("Relu", at, in(out)))
		}
	}
	return g
}

// keras is n as exporters of MatMul and Add write it, with weights as Constant
// nodes and the biases as float_data on alternating sides, some through an
// Identity.
func keras(n *nn.MLP) *graph {
	g := &graph{opset: 13, input: join(bytesOf(1, "x")), output: join(bytesOf(1, "y"))}
	at := "x"
	for i, w := range n.Weights {
		rows, columns := int64(n.Sizes[i]), int64(n.Sizes[i+1])
		name := func(kind string) string { return fmt.Sprint(kind, i) }
		g.nodes = append(g.nodes,
			node("Constant", name("w"), nil, join(bytesOf(1, "value"), bytesOf(5, raw("", w, rows, columns)), number(20, 4))),
			node("MatMul", name("product"), in(at, name("w"))))
		g.tensors = append(g.tensors, floats(name("stored"), n.Biases[i], i%2 == 0, 1, columns))
		bias := name("stored")
		if i%2 == 0 {
			bias = name("b")
			g.nodes = append(g.nodes, node("Identity", bias, in(name("stored"))))
		}
		sides := in(name("product"), bias)
		if i%2 == 1 {
			slices.Reverse(sides)
		}
		g.nodes = append(g.nodes, node("Add", name("sum"), sides))
		if at = name("sum"); i < len(n.Weights)-1 {
			at = name("relu")
			g.nodes = append(g.nodes, node("Relu", at, in(name("sum"))))
		}
	}
	g.nodes = append(g.nodes, node("Identity", "y", in(at)))
	return g
}

func TestForeignNetworks(t *testing.T) {
	n := random(t, 6, 5, 4, 3)
	unbiased := random(t, 6, 3)
	clear(unbiased.Biases[0])
	bare := &graph{opset: 7, input: info("x", 1, 2, 3), output: bytesOf(1, "y"), tensors: []proto{raw("w", unbiased.Weights[0], 6, 3)},
		nodes: []proto{node("Flatten", "f", in("x")), node("Gemm", "y", in("f", "w", ""))}}
	listed := baselines(n) // old files list weights among the inputs
	listed.more = bytesOf(14, join(bytesOf(1, "author"), bytesOf(2, "someone")))
	for name, c := range map[string]struct {
		file *graph
		want *nn.MLP
	}{
		"stable-baselines3":       {baselines(n), n},
		"MatMul, Add, Constant":   {keras(n), n},
		"no bias, a Flatten to 6": {bare, unbiased},
		"other metadata":          {listed, n},
	} {
		m, err := checkpoints.DecodeONNX(c.file.model())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if m.Meta != nil || !reflect.DeepEqual(m.Network, c.want) {
			t.Errorf("%s: came as %v, want %v", name, m.Network, c.want)
		}
	}
}

// testdata/q_net.onnx is what torch.onnx.export of PyTorch 1.13 writes of a module
// built as the q_net of stable-baselines3's DQN is; the values are PyTorch's own.
func TestExportOfPyTorch(t *testing.T) {
	data, err := os.ReadFile("testdata/q_net.onnx")
	if err != nil {
		t.Fatal(err)
	}
	m := decode(t, data)
	for _, c := range []struct{ x, want []float32 }{
		{[]float32{0.5, -1, 2}, []float32{-0.1070844829082489, 0.4316869378089905}},
		{[]float32{3, 0.25, -0.75}, []float32{-0.08292494714260101, 0.4586832523345947}},
	} {
		got := make([]float32, m.Network.Outputs())
		m.Network.Forward(got, c.x, make([]float32, m.Network.Scratch()))
		for i := range got {
			if math.Abs(float64(got[i]-c.want[i])) > 1e-6 {
				t.Errorf("values of %v are %v, want %v", c.x, got, c.want)
			}
		}
	}
}

// What makes no policy is one line that names the node and the operator, and
// says what is understood.
func TestForeignFaults(t *testing.T) {
	n := random(t, 4, 3, 2) // nodes: Flatten, Gemm, Relu, Gemm
	gemm := func(attributes ...proto) proto {
		return node("Gemm", "gemm0", in("flat", "q_net.0.weight", "q_net.0.bias"), attributes...)
	}
	weights := n.Weights[0]
	for _, c := range []struct {
		want  string
		spoil func(g *graph)
	}{
		{`node "/q_net/relu0" (Tanh): this operator is not understood`, func(g *graph) { g.nodes[2] = node("Tanh", "relu0", in("gemm0")) }},
		{`node "/q_net/probabilities" (Softmax): this operator is not understood`, func(g *graph) {
			g.nodes = append(g.nodes, node("Softmax", "probabilities", in("q_values"), wholeModel("axis", -1)))
		}},
		{`(com.microsoft.Gemm): this operator is not understood`, func(g *graph) { g.nodes[1] = join(gemm(wholeModel("transB", 1)), bytesOf(7, "com.microsoft")) }},
		{`node "/q_net/relu0" (Relu): it does not take "gemm0", the value before it: the graph branches`, func(g *graph) { g.nodes[2] = node("Relu", "relu0", in("flat")) }},
		{`(Add): it does not follow a layer without a bias`, func(g *graph) { g.nodes[2] = node("Add", "relu0", in("gemm0", "flat")) }},
		{`the output "q_values" is not the end of the chain, which is "side"`, func(g *graph) { g.nodes = append(g.nodes, node("Identity", "side", in("q_values"))) }},
		{`its weights "q_net.0.weight" are double, not float32`, func(g *graph) {
			g.tensors[0] = join(shape(3, 4), number(2, 11), bytesOf(8, "q_net.0.weight"), bytesOf(9, make([]byte, 96)))
		}},
		{`its weights "q_net.0.weight" lie outside the file (external data)`, func(g *graph) {
			g.tensors[0] = join(shape(3, 4), number(2, 1), bytesOf(8, "q_net.0.weight"), bytesOf(13, join(bytesOf(1, "location"), bytesOf(2, "../w.bin"))), number(14, 1))
		}},
		{`have 44 bytes, their shape [3 4] wants 48`, func(g *graph) { g.tensors[0] = raw("q_net.0.weight", weights[1:], 3, 4) }},
		{`of none or of more than`, func(g *graph) { g.tensors[0] = raw("q_net.0.weight", weights, 1<<40, 1<<40) }},
		{`of none or of more than`, func(g *graph) { g.tensors[0] = raw("q_net.0.weight", nil, 0, 4) }},
		{`of none or of more than`, func(g *graph) { g.tensors[0] = raw("q_net.0.weight", weights, -3, -4) }},
		{`its weights "q_net.0.weight" have 3 dimensions, not 2`, func(g *graph) { g.tensors[0] = raw("q_net.0.weight", weights, 3, 4, 1) }},
		{`take 3 numbers, the value before it has 4`, func(g *graph) { g.nodes[1] = gemm() }},
		{`hold a number that is not finite`, func(g *graph) { g.tensors[0] = raw("q_net.0.weight", []float32{float32(math.NaN())}, 1, 1) }},
		{`in more than one piece`, func(g *graph) { g.tensors[1] = join(g.tensors[1], float(4, 1)) }},
		{`its bias "q_net.0.bias" has the shape [1], its layer 3 outputs`, func(g *graph) { g.tensors[1] = raw("q_net.0.bias", []float32{1}, 1) }},
		{`its bias "q_net.0.bias" has the shape [3 1], its layer 3 outputs`, func(g *graph) { g.tensors[1] = raw("q_net.0.bias", n.Biases[0], 3, 1) }},
		{`an attribute "alpha" that is not understood`, func(g *graph) { g.nodes[1] = gemm(real("alpha", 0.5), wholeModel("transB", 1)) }},
		{`an attribute "transA" that is not understood`, func(g *graph) { g.nodes[1] = gemm(wholeModel("transA", 1), wholeModel("transB", 1)) }},
		{`an attribute "beta" that is not understood`, func(g *graph) { g.nodes[1] = gemm(wholeModel("beta", 1), wholeModel("transB", 1)) }},
		{`(Flatten): it has the attribute "axis" = 0; the axis is 1`, func(g *graph) { g.nodes[0] = node("Flatten", "flat", in("obs"), wholeModel("axis", 0)) }},
		{`it takes a value of 3 dimensions; a Flatten before it makes them 2`, func(g *graph) {
			g.input, g.nodes[0] = info("obs", 1, 2, 2), node("Identity", "flat", in("obs"))
		}},
		{`(Gemm): it follows another layer with no Relu between them`, func(g *graph) { g.nodes[2] = node("Identity", "relu0", in("gemm0")) }},
		{`(Relu): it comes before the first layer`, func(g *graph) { g.nodes[0] = node("Relu", "flat", in("obs")) }},
		{`its last layer goes through a Relu`, func(g *graph) {
			g.nodes, g.output = append(g.nodes, node("Relu", "end", in("q_values"))), info("end", 1, 2)
		}},
		{`(Gemm): it takes "flat", the value before it, as its weights`, func(g *graph) { g.nodes[1] = node("Gemm", "gemm0", in("q_net.0.weight", "flat")) }},
		{`(Gemm): it has 1 inputs`, func(g *graph) { g.nodes[1] = node("Gemm", "gemm0", in("flat")) }},
		{`its weights "flat" are no constant of the file`, func(g *graph) { g.nodes[1] = node("Gemm", "gemm0", in("flat", "flat")) }},
		{`(Constant): it has no attribute "value" alone, a tensor`, func(g *graph) { g.nodes[1] = node("Constant", "c", nil, real("value_float", 1)) }},
		{`node "/q_net/flat" (Relu): the value "flat" is made twice`, func(g *graph) { g.nodes[2] = node("Relu", "flat", in("gemm0")) }},
		{`node "/q_net/relu0" (Relu): it has 2 outputs, not one`, func(g *graph) { g.nodes[2] = join(g.nodes[2], bytesOf(2, "again")) }},
		{`its input "obs" is double, not float32`, func(g *graph) { g.input = info("obs", 11, 4) }},
		{`it has 0 inputs and 1 outputs, not one of each`, func(g *graph) { g.input = info("q_net.0.weight", 1) }},
		{`its operators are of opset 6; opset 7 or newer is understood`, func(g *graph) { g.opset = 6 }},
		{`it defines operators of its own`, func(g *graph) { g.more = bytesOf(25, bytesOf(1, "Gemm")) }},
		{`it has no layer`, func(g *graph) { g.nodes = []proto{node("Identity", "q_values", in("obs"))} }},
	} {
		g := baselines(n)
		c.spoil(g)
		_, err := checkpoints.DecodeONNX(g.model())
		if err == nil || !strings.HasPrefix(err.Error(), "cannot read ONNX: ") || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "understood is a chain") {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// What is no ONNX file, or too large for a policy, is said to be that.
func TestNoONNX(t *testing.T) {
	good := checkpoints.NetworkONNX(random(t, 4, 3, 2))
	big := baselines(random(t, 4, 2))
	for range 1001 {
		big.nodes = append(big.nodes, node("Relu", "a", in("b")))
	}
	shared := &graph{opset: 17, input: bytesOf(1, "x"), output: bytesOf(1, "y"), tensors: []proto{raw("w", make([]float32, 1<<22), 1<<11, 1<<11)}}
	at := "x"
	for i := range 5 { // few bytes that announce many weights
		product, relu := fmt.Sprint("product", i), fmt.Sprint("relu", i)
		shared.nodes = append(shared.nodes, node("MatMul", product, in(at, "w")), node("Relu", relu, in(product)))
		at = relu
	}
	deep := &graph{opset: 17, input: bytesOf(1, "x"), output: bytesOf(1, "y"), tensors: []proto{raw("w", []float32{1}, 1, 1)}}
	at = "x"
	for i := range 64 {
		product, relu := fmt.Sprint("product", i), fmt.Sprint("relu", i)
		deep.nodes = append(deep.nodes, node("MatMul", product, in(at, "w")), node("Relu", relu, in(product)))
		at = relu
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":     {nil, "holds 0 graphs"},
		"text":      {[]byte("not an ONNX file, but text"), "this is no ONNX file, or a damaged one"},
		"short":     {good[:len(good)-9], "this is no ONNX file, or a damaged one"},
		"twice":     {slices.Concat(good, good), "holds 2 graphs"},
		"large":     {make([]byte, checkpoints.MaxONNX+1), "larger than the 64 MiB"},
		"crowded":   {big.model(), "too many parts for a policy: more than 1000 of one kind"},
		"shared":    {shared.model(), "of more than"},
		"deep":      {deep.model(), `node "/q_net/product63" (MatMul): it is one layer more than 63`},
		"long name": {(&graph{opset: 17, nodes: []proto{node(strings.Repeat("x", 1<<16), "y", in("x"))}, input: bytesOf(1, "x"), output: bytesOf(1, "y")}).model(), "not understood"},
	} {
		_, err := checkpoints.DecodeONNX(c.data)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 1000 {
			t.Errorf("%s: error %.1000v, want %q", name, err, c.want)
		}
	}
}
