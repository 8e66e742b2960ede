package models

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gearshift/checkpoints/onnxfile"
)

// The modalities of a classifier, in the order of its mask.
const (
	Text = iota
	Image
	Audio
	Modalities
)

// What a classifier takes of each modality.
const (
	ImageSide    = 32   // pixels, in three colours
	AudioSamples = 8000 // a second
	Labels       = 10
	patch        = 8
	window       = 400
	hop          = 200
)

// The inputs of a classifier; AttentionMask and InputIDs are a decoder's too. A
// row of the mask has a 1 for each modality that is there.
const (
	PixelValues  = "pixel_values"
	InputValues  = "input_values"
	ModalityMask = "modality_mask"
)

var modalityNames = [Modalities]string{"text", "image", "audio"}

// Tensor is a constant of a model.
type Tensor struct {
	Values []float32
	Dims   []int
}

// Classifier is a late-fusion classifier: each modality has an encoder of its own
// that ends in logits, and the answer is the mean of those that are there. An
// encoder runs only if a row of the batch has its modality.
type Classifier struct {
	Size
	Context int
	Weights map[string]Tensor // by name
}

// Classifiers are the sizes of the classifier family.
func Classifiers() []Size {
	return []Size{{"small", 2, 64}, {"medium", 3, 192}, {"large", 4, 384}}
}

// NewClassifier draws the weights. The same arguments give the same weights.
func NewClassifier(s Size, context int, seed uint64) *Classifier {
	random := rand.New(rand.NewPCG(seed, 0x667573696f6e))
	c := &Classifier{Size: s, Context: context, Weights: map[string]Tensor{}}
	draw := func(name string, deviation float64, dims ...int) {
		n := 1
		for _, d := range dims {
			n *= d
		}
		t := Tensor{make([]float32, n), dims}
		for i := range t.Values {
			t.Values[i] = float32(random.NormFloat64() * deviation)
		}
		c.Weights[name] = t
	}
	w := s.Width
	for _, m := range modalityNames {
		switch m {
		case "text":
			draw("text.tokens", 1, Vocabulary, w)
		case "image":
			draw("image.patches", 1/math.Sqrt(3*patch*patch), w, 3, patch, patch)
		case "audio":
			draw("audio.windows", 1/math.Sqrt(window), w, 1, window)
		}
		for i := range s.Layers {
			draw(fmt.Sprintf("%s.%d.expand", m, i), math.Sqrt2/math.Sqrt(float64(w)), w, hidden*w)
			draw(fmt.Sprintf("%s.%d.contract", m, i), 1/math.Sqrt(float64(hidden*w*s.Layers)), hidden*w, w)
		}
		draw(m+".head", 2/math.Sqrt(float64(w)), w, Labels)
	}
	return c
}

// Parameters is how many weights there are.
func (c *Classifier) Parameters() (n int) {
	for _, t := range c.Weights {
		n += len(t.Values)
	}
	return n
}

// classifierGraph writes the nodes of a classifier.
type classifierGraph struct {
	*graph
	*Classifier
}

// ONNX is the classifier as a model file, with any batch and any length of text.
func (c *Classifier) ONNX() []byte {
	g := &classifierGraph{Classifier: c, graph: &graph{Graph: onnxfile.Graph{Name: "classifier"}}}
	g.declare()
	g.shared()
	fused := ""
	for m := range modalityNames {
		part := g.op("Mul", []string{g.modality(m), g.op("Gather", []string{ModalityMask, fmt.Sprintf("column%d", m)}, onnxfile.Whole("axis", 1))})
		if fused == "" {
			fused = part
		} else {
			fused = g.add(fused, part)
		}
	}
	there := g.op("ReduceSum", []string{ModalityMask, "axis_1"})
	g.Node("Div", []string{fused, g.op("Max", []string{there, "unit"})}, []string{Logits})
	return g.Model()
}

func (g *classifierGraph) declare() {
	batch, length := onnxfile.Any("batch_size"), onnxfile.Any("sequence_length")
	side := onnxfile.Fixed(ImageSide)
	g.Input(InputIDs, onnxfile.Int64, batch, length)
	g.Input(AttentionMask, onnxfile.Int64, batch, length)
	g.Input(PixelValues, onnxfile.Float32, batch, onnxfile.Fixed(3), side, side)
	g.Input(InputValues, onnxfile.Float32, batch, onnxfile.Fixed(AudioSamples))
	g.Input(ModalityMask, onnxfile.Float32, batch, onnxfile.Fixed(Modalities))
	g.Output(Logits, onnxfile.Float32, batch, onnxfile.Fixed(Labels))
}

// shared writes the constants, and the shape of logits.
func (g *classifierGraph) shared() {
	for _, m := range modalityNames { // a map has no order, and a seed gives one file
		for _, name := range g.names(m) {
			t := g.Weights[name]
			g.Reals(name, t.Values, t.Dims...)
		}
	}
	ones := make([]float32, g.Classifier.Width)
	for i := range ones {
		ones[i] = 1
	}
	g.Reals("gain", ones, len(ones))
	g.Reals("unit", []float32{1})
	g.Wholes("axis_2", []int64{2}, 1)
	g.optionalConstants(Labels)
}

// names are those of a modality's weights.
func (c *Classifier) names(m string) []string {
	list := []string{map[string]string{"text": "text.tokens", "image": "image.patches", "audio": "audio.windows"}[m]}
	for i := range c.Layers {
		list = append(list, fmt.Sprintf("%s.%d.expand", m, i), fmt.Sprintf("%s.%d.contract", m, i))
	}
	return append(list, m+".head")
}

// modality is the logits of one modality, zero if no row has it.
func (g *classifierGraph) modality(m int) string {
	return g.optional(m, Labels, func(inner *graph) string { return (&classifierGraph{inner, g.Classifier}).encode(m) })
}

// encode writes the modality's encoder.
func (g *classifierGraph) encode(m int) string {
	name := modalityNames[m]
	var x string
	switch m {
	case Text: // the mean of the tokens that are no padding
		mask := g.op("Unsqueeze", []string{g.op("Cast", []string{AttentionMask}, onnxfile.Whole("to", onnxfile.Float32)), "axis_2"})
		sum := g.op("ReduceSum", []string{g.op("Mul", []string{g.gather("text.tokens", InputIDs), mask}), "axis_1"}, onnxfile.Whole("keepdims", 0))
		count := g.op("ReduceSum", []string{mask, "axis_1"}, onnxfile.Whole("keepdims", 0))
		x = g.op("Div", []string{sum, g.op("Max", []string{count, "unit"})})
	case Image:
		x = g.pool(g.op("Conv", []string{PixelValues, "image.patches"}, onnxfile.Wholes("strides", patch, patch)))
	case Audio:
		wave := g.op("Unsqueeze", []string{InputValues, "axis_1"})
		x = g.pool(g.op("Conv", []string{wave, "audio.windows"}, onnxfile.Wholes("strides", hop)))
	}
	for i := range g.Layers {
		h := g.op("MatMul", []string{g.standard(x), fmt.Sprintf("%s.%d.expand", name, i)})
		x = g.add(x, g.op("MatMul", []string{g.op("Relu", []string{h}), fmt.Sprintf("%s.%d.contract", name, i)}))
	}
	return g.op("MatMul", []string{g.standard(x), name + ".head"})
}

func (g *classifierGraph) pool(x string) string {
	return g.op("Flatten", []string{g.op("GlobalAveragePool", []string{g.op("Relu", []string{x})})})
}

func (g *classifierGraph) standard(x string) string {
	return g.op("LayerNormalization", []string{x, "gain"}, onnxfile.Whole("axis", -1), onnxfile.Real("epsilon", Epsilon))
}

// ClassifierType is what config.json calls a classifier of this form.
const ClassifierType = "late_fusion_classifier"

func (c *Classifier) config() []byte {
	labels := map[string]string{}
	for i := range Labels {
		labels[fmt.Sprint(i)] = fmt.Sprintf("LABEL_%d", i)
	}
	return indented("  ", map[string]any{
		"model_type": ClassifierType, "hidden_size": c.Width, "num_hidden_layers": c.Layers, "id2label": labels,
		"max_position_embeddings": c.Context, "vocab_size": Vocabulary, "image_size": ImageSide,
		"sampling_rate": AudioSamples, "torch_dtype": "float32",
	})
}
