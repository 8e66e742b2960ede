package models

import (
	"fmt"
	"math"

	"gearshift/checkpoints/onnxfile"
)

// The inputs and outputs of a decoder, as Hugging Face Optimum exports it. Of
// the cache there is a key and a value for each layer.
const (
	InputIDs      = "input_ids"
	AttentionMask = "attention_mask"
	PositionIDs   = "position_ids"
	Logits        = "logits"
)

// graph writes the nodes of a decoder.
type graph struct {
	onnxfile.Graph
	*Decoder
	nodes  int
	prefix string // of the names of values in between
	attend attention
}

// attention is how a layer mixes its queries, keys and values of shape (batch, length,
// 3 × width) with the cache, into (batch, length, width).
type attention func(layer int, name, all string) string

// ONNX is the decoder as a model file, with any batch and any length.
func (d *Decoder) ONNX() []byte {
	g := &graph{Decoder: d, Graph: onnxfile.Graph{Name: "decoder"}}
	g.declare()
	g.constants()
	if d.Concat {
		g.attend = g.concatenated(g.maskBias())
	} else {
		g.attend = g.inPlace(g.lengths())
	}
	x := g.add(g.gather("tokens", InputIDs), g.gather("positions", PositionIDs))
	for i := range d.Blocks {
		x = g.block(i, x)
	}
	x = g.norm("norm", d.Norm, x)
	g.Reals("head", d.Head, d.Width, Vocabulary)
	g.Node("MatMul", []string{x, "head"}, []string{Logits})
	return g.Model()
}

func (g *graph) declare() {
	batch, length, before := onnxfile.Any("batch_size"), onnxfile.Any("sequence_length"), onnxfile.Any("past_sequence_length")
	whole := onnxfile.Any("past_sequence_length + sequence_length")
	heads, width := onnxfile.Fixed(g.Heads), onnxfile.Fixed(g.Width/g.Heads)
	g.Input(InputIDs, onnxfile.Int64, batch, length)
	g.Input(AttentionMask, onnxfile.Int64, batch, whole)
	g.Input(PositionIDs, onnxfile.Int64, batch, length)
	g.Output(Logits, onnxfile.Float32, batch, length, onnxfile.Fixed(Vocabulary))
	for i := range g.Blocks {
		for _, kind := range []string{"key", "value"} {
			g.Input(past(i, kind), onnxfile.Float32, batch, heads, before, width)
			g.Output(present(i, kind), onnxfile.Float32, batch, heads, whole, width)
		}
	}
}

func (g *graph) constants() {
	g.Reals("tokens", g.Tokens, Vocabulary, g.Width)
	g.Reals("positions", g.Positions, g.Context, g.Width)
	g.Wholes("zero", []int64{0})
	g.Wholes("one", []int64{1})
	g.Wholes("axes_1_2", []int64{1, 2}, 2)
	g.Wholes("axis_1", []int64{1}, 1)
	g.Wholes("split_heads", []int64{0, 0, int64(g.Heads), int64(g.Width / g.Heads)}, 4)
	g.Wholes("join_heads", []int64{0, 0, int64(g.Width)}, 3)
	g.Reals("scale", []float32{float32(1 / math.Sqrt(float64(g.Width/g.Heads)))})
	g.Reals("seen", []float32{0})
	g.Reals("hidden", []float32{-1e30})
}

// fresh is the name of a value in between.
func (g *graph) fresh() string {
	g.nodes++
	return fmt.Sprintf("%sv%d", g.prefix, g.nodes)
}

// op adds a node with one output.
func (g *graph) op(op string, inputs []string, attributes ...onnxfile.Attribute) string {
	out := g.fresh()
	g.Node(op, inputs, []string{out}, attributes...)
	return out
}

func (g *graph) add(a, b string) string { return g.op("Add", []string{a, b}) }

func (g *graph) gather(table, rows string) string { return g.op("Gather", []string{table, rows}) }

// maskBias is what is added to the scores of attention, of shape (batch, 1,
// length, past + length): nothing where a token may look, −10³⁰ where padding or
// a later token is.
func (g *graph) maskBias() string {
	size := func(of string) string {
		return g.op("Gather", []string{g.op("Shape", []string{of}), "one"})
	}
	whole := size(AttentionMask)
	before := g.op("Sub", []string{whole, size(InputIDs)})
	keys := g.op("Range", []string{"zero", whole, "one"})
	queries := g.op("Unsqueeze", []string{g.op("Range", []string{before, whole, "one"}), "axis_1"})
	causal := g.op("LessOrEqual", []string{keys, queries})
	real := g.op("Unsqueeze", []string{g.op("Cast", []string{AttentionMask}, onnxfile.Whole("to", onnxfile.Bool)), "axes_1_2"})
	return g.op("Where", []string{g.op("And", []string{real, causal}), "seen", "hidden"})
}

func (g *graph) norm(name string, n Norm, x string) string {
	g.Reals(name+".gain", n.Gain, g.Width)
	g.Reals(name+".offset", n.Offset, g.Width)
	return g.op("LayerNormalization", []string{x, name + ".gain", name + ".offset"},
		onnxfile.Whole("axis", -1), onnxfile.Real("epsilon", Epsilon))
}

func (g *graph) dense(name string, d Dense, in, out int, x string) string {
	g.Reals(name+".weights", d.Weights, in, out)
	g.Reals(name+".bias", d.Bias, out)
	return g.add(g.op("MatMul", []string{x, name + ".weights"}), name+".bias")
}

// block is the layer i.
func (g *graph) block(i int, x string) string {
	b, w, name := g.Blocks[i], g.Width, fmt.Sprintf("block%d.", i)
	all := g.dense(name+"attention", b.Attention, w, 3*w, g.norm(name+"before", b.Before, x))
	x = g.add(x, g.dense(name+"merge", b.Merge, w, w, g.attend(i, name, all)))
	h := g.norm(name+"between", b.Between, x)
	h = g.op("Relu", []string{g.dense(name+"expand", b.Expand, w, hidden*w, h)})
	return g.add(x, g.dense(name+"contract", b.Contract, hidden*w, w, h))
}

func past(layer int, kind string) string    { return fmt.Sprintf("past_key_values.%d.%s", layer, kind) }
func present(layer int, kind string) string { return fmt.Sprintf("present.%d.%s", layer, kind) }

// lengths are what grouped-query attention asks of a batch: of each sequence how many
// tokens it has with the new ones, less one, and the most of them.
func (g *graph) lengths() (each, longest string) {
	sums := g.op("ReduceSum", []string{AttentionMask, "axis_1"}, onnxfile.Whole("keepdims", 0))
	each = g.op("Cast", []string{g.op("Sub", []string{sums, "one"})}, onnxfile.Whole("to", onnxfile.Int32))
	whole := g.op("Gather", []string{g.op("Shape", []string{AttentionMask}), "one"})
	return each, g.op("Cast", []string{whole}, onnxfile.Whole("to", onnxfile.Int32))
}

// inPlace is attention that adds to its cache where it lies, if past and present are
// the same memory, and that reads of each sequence what it has: ONNX Runtime's own.
func (g *graph) inPlace(each, longest string) attention {
	return func(i int, name, all string) string {
		out := g.fresh()
		g.MicrosoftNode("GroupQueryAttention",
			[]string{all, "", "", past(i, "key"), past(i, "value"), each, longest},
			[]string{out, present(i, "key"), present(i, "value")},
			onnxfile.Whole("num_heads", int64(g.Heads)), onnxfile.Whole("kv_num_heads", int64(g.Heads)))
		return out
	}
}

// concatenated is attention in ONNX's plain operators, which makes a new cache of the
// old one and what is added, and reads all of it, padding too.
func (g *graph) concatenated(bias string) attention {
	return func(i int, name, all string) string {
		parts := []string{g.fresh(), g.fresh(), g.fresh()}
		g.Node("Split", []string{all}, parts, onnxfile.Whole("axis", -1))
		for p, part := range parts {
			split := g.op("Reshape", []string{part, "split_heads"})
			parts[p] = g.op("Transpose", []string{split}, onnxfile.Wholes("perm", 0, 2, 1, 3))
		}
		query := g.op("Mul", []string{parts[0], "scale"})
		var cached [2]string
		for c, kind := range []string{"key", "value"} {
			cached[c] = present(i, kind)
			g.Node("Concat", []string{past(i, kind), parts[1+c]}, cached[c:c+1], onnxfile.Whole("axis", 2))
		}
		keys := g.op("Transpose", []string{cached[0]}, onnxfile.Wholes("perm", 0, 1, 3, 2))
		scores := g.add(g.op("MatMul", []string{query, keys}), bias)
		weights := g.op("Softmax", []string{scores}, onnxfile.Whole("axis", -1))
		mixed := g.op("Transpose", []string{g.op("MatMul", []string{weights, cached[1]})}, onnxfile.Wholes("perm", 0, 2, 1, 3))
		return g.op("Reshape", []string{mixed, "join_heads"})
	}
}
