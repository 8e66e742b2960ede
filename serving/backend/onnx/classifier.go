//go:build onnx && cgo

package onnx

import (
	"errors"
	"fmt"
	"path/filepath"

	onnxruntime "github.com/yalue/onnxruntime_go"

	"gearshift/checkpoints/onnxfile"
	"gearshift/serving/backend/classifier"
)

// The inputs of each modality. A model may lack those of any, though not of all.
var (
	textInputs  = []string{"input_ids", "attention_mask"}
	imageInputs = []string{"pixel_values"}
	audioInputs = []string{"input_values"}
)

// partsInput is which modalities count.
const partsInput = "modality_mask"

// The largest images and the longest sounds that a model is believed to take.
const (
	maxSide    = 4096
	maxSamples = 1 << 24
)

// modalities are text, image and audio, in the order of the mask.
const modalities = 3

// Classifier is a late-fusion classifier in an ONNX Runtime session. It
// implements [classifier.Model].
type Classifier struct {
	session *onnxruntime.DynamicAdvancedSession
	layout  classifier.Layout
	inputs  []string // in the order in which they are given
}

// OpenClassifier loads DIR/model.onnx, for a vocabulary of so many tokens, which is 0 if
// the model takes no text. The library must be loaded.
func OpenClassifier(dir string, vocabulary int, o Options) (*Classifier, error) {
	path := filepath.Join(dir, "model.onnx")
	c := &Classifier{layout: classifier.Layout{Vocabulary: vocabulary}}
	if err := c.open(path, o); err != nil {
		return nil, fmt.Errorf("cannot load model %s: %w", path, err)
	}
	return c, nil
}

func (c *Classifier) open(path string, o Options) error {
	outline, _, err := readFile(path, o)
	if err != nil {
		return err
	}
	inputs, outputs, err := onnxfile.Signature(outline)
	if err != nil {
		return err
	}
	if err := c.shapes(byName(inputs), byName(outputs)); err != nil {
		return fmt.Errorf("it is no late-fusion classifier: %w", err)
	}
	c.session, err = newSession(path, c.inputs, []string{"logits"}, o)
	return err
}

// shapes reads which inputs there are, and the sizes that are fixed.
func (c *Classifier) shapes(inputs, outputs map[string]*onnxfile.Value) error {
	text, tokens := c.layout.Vocabulary > 0, inputs[textInputs[0]] != nil
	switch {
	case tokens && !text:
		return fmt.Errorf("it has the input %s, and config.json has no vocab_size", textInputs[0])
	case text && !tokens:
		return fmt.Errorf("it has no input %s, and config.json has a vocab_size", textInputs[0])
	}
	for _, m := range []struct {
		names []string
		there bool
	}{{textInputs, text}, {imageInputs, inputs[imageInputs[0]] != nil}, {audioInputs, inputs[audioInputs[0]] != nil}} {
		if m.there {
			c.inputs = append(c.inputs, m.names...)
		}
	}
	if len(c.inputs) == 0 {
		return errors.New("it has none of the inputs input_ids, pixel_values and input_values")
	}
	c.inputs = append(c.inputs, partsInput)
	for _, name := range c.inputs {
		if inputs[name] == nil {
			return fmt.Errorf("it has no input %s", name)
		}
	}
	return c.sizes(inputs["pixel_values"], inputs["input_values"], outputs["logits"])
}

// sizes reads those of the inputs that there are.
func (c *Classifier) sizes(image, audio, logits *onnxfile.Value) error {
	if image != nil {
		d := image.Dims
		if len(d) != 4 || d[1] != 3 || !within(d[2], maxSide) || d[2] != d[3] {
			return errors.New("its input pixel_values is not of shape (batch, 3, side, side)")
		}
		c.layout.ImageSide = int(d[2])
	}
	if audio != nil {
		d := audio.Dims
		if len(d) != 2 || !within(d[1], maxSamples) {
			return errors.New("its input input_values is not of shape (batch, samples)")
		}
		c.layout.AudioSamples = int(d[1])
	}
	if logits == nil || len(logits.Dims) != 2 || !within(logits.Dims[1], maxVocabulary) {
		return errors.New("it has no output logits of shape (batch, labels)")
	}
	c.layout.Labels = int(logits.Dims[1])
	return nil
}

// Layout implements [classifier.Model].
func (c *Classifier) Layout() classifier.Layout { return c.layout }

// Classify implements [classifier.Model].
func (c *Classifier) Classify(batch []classifier.Input) ([]float32, error) {
	rows := int64(len(batch))
	there := make([]float32, rows*modalities)
	for r, in := range batch {
		for m, given := range []bool{in.Tokens != nil, in.Image != nil, in.Audio != nil} {
			if given {
				there[r*modalities+m] = 1
			}
		}
	}
	var tensors []held
	if c.layout.Vocabulary > 0 {
		tensors = tokens(batch)
	}
	if side := int64(c.layout.ImageSide); side > 0 {
		tensors = append(tensors, tensorOf(joined(batch, 3*side*side, func(in *classifier.Input) []float32 { return in.Image }), rows, 3, side, side))
	}
	if samples := int64(c.layout.AudioSamples); samples > 0 {
		tensors = append(tensors, tensorOf(joined(batch, samples, func(in *classifier.Input) []float32 { return in.Audio }), rows, samples))
	}
	labels := int64(c.layout.Labels)
	logits := make([]float32, rows*labels)
	return logits, c.run(append(tensors, tensorOf(there, rows, modalities)), tensorOf(logits, rows, labels))
}

// joined is what each row has, one after the other, and zeros where it has nothing.
func joined(batch []classifier.Input, size int64, of func(*classifier.Input) []float32) []float32 {
	all := make([]float32, int64(len(batch))*size)
	for r := range batch {
		copy(all[int64(r)*size:], of(&batch[r]))
	}
	return all
}

// tokens are the tensors of the texts and of their mask.
func tokens(batch []classifier.Input) []held {
	rows, length := len(batch), 1
	for _, in := range batch {
		length = max(length, len(in.Tokens))
	}
	ids, mask := make([]int64, rows*length), make([]int64, rows*length)
	for r, in := range batch {
		copy(ids[r*length:], in.Tokens)
		for i := range in.Tokens {
			mask[r*length+i] = 1
		}
	}
	return []held{tensorOf(ids, int64(rows), int64(length)), tensorOf(mask, int64(rows), int64(length))}
}

// held is a tensor, or why there is none.
type held struct {
	value onnxruntime.Value
	err   error
}

func tensorOf[T int64 | float32](data []T, dims ...int64) held {
	t, err := onnxruntime.NewTensor(onnxruntime.NewShape(dims...), data)
	if err != nil {
		return held{err: err}
	}
	return held{value: t}
}

// run computes, and lets go of the tensors.
func (c *Classifier) run(in []held, out held) error {
	var values []onnxruntime.Value
	var errs []error
	for _, h := range append(in, out) {
		if h.err != nil {
			errs = append(errs, h.err)
			continue
		}
		defer func() { _ = h.value.Destroy() }()
		values = append(values, h.value)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return oneLine(c.session.Run(values[:len(in)], values[len(in):]))
}

// Close implements [classifier.Model].
func (c *Classifier) Close() {
	_ = c.session.Destroy()
	returnFree()
}
