package models

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gearshift/checkpoints/onnxfile"
)

// experts is how many each layer of an image classifier has. An input uses one of them.
const experts = 64

// ImageClassifier is a classifier of images whose layers are mixtures of experts: a gate chooses
// one matrix of many for each input. Loading it takes the time and the memory of all weights,
// answering the time of a few, so that many of them can be served on few cores.
type ImageClassifier struct {
	Size
	seed uint64
}

// ImageClassifiers are five families of image classifiers, 27 sizes of 4 to 400 MB, in about the
// proportions of torchvision's MobileNet, ShuffleNet, ConvNeXt, EfficientNet and RegNet.
func ImageClassifiers() []Size {
	return []Size{
		{"mobile-1", 1, 128}, {"mobile-2", 2, 128}, {"mobile-3", 3, 128},
		{"shuffle-1", 1, 128}, {"shuffle-2", 1, 192}, {"shuffle-3", 3, 128}, {"shuffle-4", 4, 128},
		{"conv-1", 3, 256}, {"conv-2", 6, 256}, {"conv-3", 11, 256}, {"conv-4", 24, 256},
		{"efficient-1", 1, 192}, {"efficient-2", 3, 128}, {"efficient-3", 1, 256}, {"efficient-4", 3, 192},
		{"efficient-5", 4, 192}, {"efficient-6", 4, 256}, {"efficient-7", 5, 256}, {"efficient-8", 8, 256},
		{"reg-1", 1, 192}, {"reg-2", 3, 128}, {"reg-3", 5, 128}, {"reg-4", 4, 192},
		{"reg-5", 5, 256}, {"reg-6", 10, 256}, {"reg-7", 18, 256}, {"reg-8", 24, 256},
	}
}

// MakeImageClassifiers writes a folder for each size, as [MakeDecoders] does, without a tokenizer.
func MakeImageClassifiers(ctx context.Context, dir string, o Options, done func(folder string, parameters int)) error {
	for _, s := range o.Sizes {
		if n := (&ImageClassifier{Size: s}).Parameters(); n > maxParameters {
			return fmt.Errorf("%s=%dx%d has some %d million parameters; want at most %d: one file holds them all", s.Name, s.Layers, s.Width, n/1e6, maxParameters/1_000_000)
		}
	}
	return makeFamily(ctx, dir, o, nil, done, func(s Size, seed uint64) model { return &ImageClassifier{s, seed} })
}

// Parameters is how many weights there are.
func (c *ImageClassifier) Parameters() int {
	w := c.Width
	return 3*patch*patch*w + c.Layers*(w*experts+experts*w*w) + w*Labels
}

// ONNX is the classifier as a model file, with any batch. The same size and seed give the same
// weights.
func (c *ImageClassifier) ONNX() []byte {
	g := &graph{Graph: onnxfile.Graph{Name: "images"}}
	random := rand.New(rand.NewPCG(c.seed, 0x696d61676573))
	draw := func(name string, deviation float64, dims ...int) string {
		n := 1
		for _, d := range dims {
			n *= d
		}
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(random.NormFloat64() * deviation)
		}
		g.Reals(name, values, dims...)
		return name
	}
	w, batch := c.Width, onnxfile.Any("batch_size")
	g.Input(PixelValues, onnxfile.Float32, batch, onnxfile.Fixed(3), onnxfile.Fixed(ImageSide), onnxfile.Fixed(ImageSide))
	g.Input(ModalityMask, onnxfile.Float32, batch, onnxfile.Fixed(Modalities))
	g.Output(Logits, onnxfile.Float32, batch, onnxfile.Fixed(Labels))
	ones := make([]float32, w)
	for i := range ones {
		ones[i] = 1
	}
	g.Reals("gain", ones, w)
	g.Wholes("axis_1", []int64{1}, 1)
	g.Wholes("image_column", []int64{Image}, 1)
	standard := func(x string) string {
		return g.op("LayerNormalization", []string{x, "gain"}, onnxfile.Whole("axis", -1), onnxfile.Real("epsilon", Epsilon))
	}
	x := g.op("Conv", []string{PixelValues, draw("patches", 1/math.Sqrt(3*patch*patch), w, 3, patch, patch)}, onnxfile.Wholes("strides", patch, patch))
	x = g.op("Flatten", []string{g.op("GlobalAveragePool", []string{g.op("Relu", []string{x})})})
	for i := range c.Layers {
		n := standard(x)
		gate := g.op("MatMul", []string{n, draw(fmt.Sprintf("%d.gate", i), 1/math.Sqrt(float64(w)), w, experts)})
		chosen := g.op("ArgMax", []string{gate}, onnxfile.Whole("axis", 1), onnxfile.Whole("keepdims", 0))
		expert := g.op("Gather", []string{draw(fmt.Sprintf("%d.experts", i), 1/math.Sqrt(float64(w)), experts, w, w), chosen})
		h := g.op("Squeeze", []string{g.op("MatMul", []string{g.op("Unsqueeze", []string{n, "axis_1"}), expert}), "axis_1"})
		x = g.add(x, g.op("Relu", []string{h}))
	}
	logits := g.op("MatMul", []string{standard(x), draw("head", 2/math.Sqrt(float64(w)), w, Labels)})
	there := g.op("Gather", []string{ModalityMask, "image_column"}, onnxfile.Whole("axis", 1))
	g.Node("Mul", []string{logits, there}, []string{Logits})
	return g.Model()
}

func (c *ImageClassifier) config() []byte {
	labels := map[string]string{}
	for i := range Labels {
		labels[fmt.Sprint(i)] = fmt.Sprintf("LABEL_%d", i)
	}
	return indented("  ", map[string]any{
		"model_type": ClassifierType, "hidden_size": c.Width, "num_hidden_layers": c.Layers, "num_experts": experts,
		"id2label": labels, "image_size": ImageSide, "torch_dtype": "float32",
	})
}
