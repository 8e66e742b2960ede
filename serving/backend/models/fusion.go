package models

import (
	"encoding/json"
	"fmt"
	"math"

	"gearshift/checkpoints/onnxfile"
)

// Fusion is a late-fusion classifier with weights that were learnt. Each modality has an
// encoder of its own that ends in logits, and the answer is their sum over those that are
// there. A modality that is nil is one that the model lacks.
type Fusion struct {
	Labels []string
	Text   *TextEncoder
	Image  *ImageEncoder
	Audio  *SoundEncoder
}

// Layers are those of each position, and those after the groups of positions, of which
// the last gives the logits.
type Layers struct{ Each, Whole []Dense }

// ImageEncoder is the encoder of gray images; of colours it takes the mean.
type ImageEncoder struct {
	Patches
	Layers
}

// SoundEncoder is the encoder of sounds.
type SoundEncoder struct {
	*Spectrogram
	Layers
}

// fusionGraph writes the nodes of a Fusion.
type fusionGraph struct {
	*graph
	labels int
}

// ONNX is the classifier as a model file, with any batch.
func (f *Fusion) ONNX() []byte {
	g := &fusionGraph{&graph{Graph: onnxfile.Graph{Name: "fusion"}}, len(f.Labels)}
	batch := onnxfile.Any("batch_size")
	g.Input(ModalityMask, onnxfile.Float32, batch, onnxfile.Fixed(Modalities))
	g.optionalConstants(g.labels)
	var parts []string
	if e := f.Text; e != nil {
		length := onnxfile.Any("sequence_length")
		g.Input(InputIDs, onnxfile.Int64, batch, length)
		g.Input(AttentionMask, onnxfile.Int64, batch, length)
		parts = append(parts, g.part(Text, func(inner *graph) string { return (&fusionGraph{inner, g.labels}).text(e) }))
	}
	if i := f.Image; i != nil {
		side := onnxfile.Fixed(i.Side)
		g.Input(PixelValues, onnxfile.Float32, batch, onnxfile.Fixed(3), side, side)
		parts = append(parts, g.part(Image, func(inner *graph) string { return (&fusionGraph{inner, g.labels}).image(i) }))
	}
	if a := f.Audio; a != nil {
		g.Input(InputValues, onnxfile.Float32, batch, onnxfile.Fixed(a.Samples))
		parts = append(parts, g.part(Audio, func(inner *graph) string { return (&fusionGraph{inner, g.labels}).audio(a) }))
	}
	g.Output(Logits, onnxfile.Float32, batch, onnxfile.Fixed(g.labels))
	g.Node("Sum", parts, []string{Logits})
	return g.Model()
}

// part is the logits of a modality, zero in rows that lack it.
func (g *fusionGraph) part(m int, encode func(*graph) string) string {
	column := g.op("Gather", []string{ModalityMask, fmt.Sprintf("column%d", m)}, onnxfile.Whole("axis", 1))
	return g.op("Mul", []string{g.optional(m, g.labels, encode), column})
}

func (g *fusionGraph) image(e *ImageEncoder) string {
	third := float32(1) / 3
	g.Reals("image.gray", []float32{third, third, third}, 1, 3, 1, 1)
	gray := g.op("Conv", []string{PixelValues, "image.gray"})
	step := int64(e.Step)
	x := g.positions("image", e.Each, gray, []int{1, e.Size, e.Size}, []int{1, 1}, onnxfile.Wholes("strides", step, step))
	pool := int64(e.Pool)
	x = g.op("AveragePool", []string{x}, onnxfile.Wholes("kernel_shape", pool, pool), onnxfile.Wholes("strides", pool, pool))
	return g.whole("image", e.Whole, x, len(e.Each[len(e.Each)-1].Bias))
}

func (g *fusionGraph) audio(e *SoundEncoder) string {
	levels := g.levels(e.Spectrogram)
	x := g.positions("audio", e.Each, levels, []int{e.Bands, e.Width}, []int{1}, onnxfile.Wholes("strides", int64(e.Step)))
	pool := int64(e.Pool)
	x = g.op("AveragePool", []string{x}, onnxfile.Wholes("kernel_shape", pool), onnxfile.Wholes("strides", pool))
	return g.whole("audio", e.Whole, x, len(e.Each[len(e.Each)-1].Bias))
}

// levels is the spectrogram, by a convolution with the waves of all frequencies.
func (g *fusionGraph) levels(s *Spectrogram) string {
	waves := make([]float32, 2*s.bins()*s.Window)
	for k := range s.bins() {
		for i := range s.Window {
			sin, cos := math.Sincos(2 * math.Pi * float64((k+1)*i%s.Window) / float64(s.Window))
			waves[k*s.Window+i] = float32(cos * s.weight(i))
			waves[(s.bins()+k)*s.Window+i] = float32(sin * s.weight(i))
		}
	}
	g.Reals("audio.waves", waves, 2*s.bins(), 1, s.Window)
	g.Reals("audio.filters", s.filters(), s.Bands, s.bins())
	g.Reals("audio.floor", []float32{floor})
	g.Reals("audio.shift", s.Shift, s.Bands, 1)
	g.Reals("audio.scale", s.Scale, s.Bands, 1)
	found := g.op("Conv", []string{g.op("Unsqueeze", []string{InputValues, "axis_1"}), "audio.waves"}, onnxfile.Wholes("strides", int64(s.Hop)))
	parts := []string{g.fresh(), g.fresh()}
	g.Node("Split", []string{g.op("Mul", []string{found, found})}, parts, onnxfile.Whole("axis", 1))
	power := g.op("MatMul", []string{"audio.filters", g.add(parts[0], parts[1])})
	level := g.op("Log", []string{g.add(power, "audio.floor")})
	return g.op("Mul", []string{g.op("Sub", []string{level, "audio.shift"}), "audio.scale"})
}

// positions applies the layers of each position: the first as a convolution with a kernel
// of that shape, the others as ones with a kernel of that other shape.
func (g *fusionGraph) positions(name string, layers []Dense, x string, first, rest []int, strides onnxfile.Attribute) string {
	for i, l := range layers {
		weights, bias := fmt.Sprintf("%s.each%d.weights", name, i), fmt.Sprintf("%s.each%d.bias", name, i)
		out := len(l.Bias)
		in := len(l.Weights) / out
		dims := append([]int{out}, first...)
		attributes := []onnxfile.Attribute{strides}
		if i > 0 {
			dims, attributes = append([]int{out, in}, rest...), nil
		}
		g.Reals(weights, transposed(l.Weights, in, out), dims...)
		g.Reals(bias, l.Bias, out)
		x = g.op("Relu", []string{g.op("Conv", []string{x, weights, bias}, attributes...)})
	}
	return x
}

// whole applies the layers after the groups, which come as (rows, width, groups…), while
// the weights are for group after group.
func (g *fusionGraph) whole(name string, layers []Dense, x string, width int) string {
	x = g.op("Flatten", []string{x})
	for i, l := range layers {
		out := len(l.Bias)
		in, weights := len(l.Weights)/out, l.Weights
		if i == 0 {
			weights = regrouped(weights, width, in/width, out)
		}
		x = g.dense(fmt.Sprintf("%s.whole%d", name, i), Dense{weights, l.Bias}, in, out, x)
		if i < len(layers)-1 {
			x = g.op("Relu", []string{x})
		}
	}
	return x
}

// transposed is the matrix of shape (in, out) as (out, in).
func transposed(w []float32, in, out int) []float32 {
	t := make([]float32, len(w))
	for i := range in {
		for o := range out {
			t[o*in+i] = w[i*out+o]
		}
	}
	return t
}

// regrouped has the rows, which are in the order of (groups, width), in that of (width,
// groups).
func regrouped(w []float32, width, groups, out int) []float32 {
	t := make([]float32, len(w))
	for g := range groups {
		for c := range width {
			copy(t[(c*groups+g)*out:][:out], w[(g*width+c)*out:][:out])
		}
	}
	return t
}

// Parameters is how many weights were learnt.
func (f *Fusion) Parameters() (n int) {
	var layers []Dense
	if f.Text != nil {
		layers = append(append(layers, f.Text.Each...), f.Text.Whole...)
	}
	if f.Image != nil {
		layers = append(append(layers, f.Image.Each...), f.Image.Whole...)
	}
	if f.Audio != nil {
		layers = append(append(layers, f.Audio.Each...), f.Audio.Whole...)
	}
	for _, l := range layers {
		n += len(l.Weights) + len(l.Bias)
	}
	return n
}

// Files are the files of the model's folder, by name.
func (f *Fusion) Files() map[string][]byte {
	files := map[string][]byte{"model.onnx": f.ONNX(), "config.json": f.config()}
	if f.Text != nil {
		files["tokenizer.json"] = f.Text.Tokenizer()
	}
	return files
}

func (f *Fusion) config() []byte {
	labels := map[string]string{}
	for i, l := range f.Labels {
		labels[fmt.Sprint(i)] = l
	}
	c := map[string]any{"model_type": ClassifierType, "id2label": labels, "torch_dtype": "float32"}
	if f.Text != nil {
		c["vocab_size"], c["max_position_embeddings"] = f.Text.Vocabulary(), f.Text.Context
	}
	if f.Image != nil {
		c["image_size"] = f.Image.Side
	}
	if f.Audio != nil {
		c["sampling_rate"] = f.Audio.Rate
	}
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil { // plain values always encode
		panic(err)
	}
	return append(b, '\n')
}
