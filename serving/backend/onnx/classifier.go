//go:build onnx && cgo

package onnx

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	onnxruntime "github.com/yalue/onnxruntime_go"

	"gearshift/checkpoints/onnxfile"
	"gearshift/serving/backend/classifier"
)

// classifierInputs are in the order in which they are given.
var classifierInputs = []string{"input_ids", "attention_mask", "pixel_values", "input_values", "modality_mask"}

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
}

// OpenClassifier loads DIR/model.onnx, for a vocabulary of so many tokens. The
// library must be loaded.
func OpenClassifier(dir string, vocabulary int, o Options) (*Classifier, error) {
	path := filepath.Join(dir, "model.onnx")
	c := &Classifier{layout: classifier.Layout{Vocabulary: vocabulary}}
	if err := c.open(path, o); err != nil {
		return nil, fmt.Errorf("cannot load model %s: %w", path, err)
	}
	return c, nil
}

func (c *Classifier) open(path string, o Options) error {
	data, free, err := readFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return errors.New("there is no such file; `gearshift models make` makes models")
	case err != nil:
		return err
	}
	defer free()
	switch {
	case o.MaxBytes > 0 && int64(len(data)) > o.MaxBytes:
		return fmt.Errorf("its %d bytes exceed the declared memory of %d", len(data), o.MaxBytes)
	}
	inputs, outputs, err := onnxfile.Signature(data)
	if err != nil {
		return err
	}
	if err := c.shapes(byName(inputs), byName(outputs)); err != nil {
		return fmt.Errorf("it is no late-fusion classifier: %w", err)
	}
	options, err := newOptions(o)
	if err != nil {
		return err
	}
	defer func() { _ = options.Destroy() }()
	c.session, err = onnxruntime.NewDynamicAdvancedSessionWithONNXData(data, classifierInputs, []string{"logits"}, options)
	return oneLine(err)
}

// shapes reads the sizes that are fixed.
func (c *Classifier) shapes(inputs, outputs map[string]*onnxfile.Value) error {
	for _, name := range classifierInputs {
		if inputs[name] == nil {
			return fmt.Errorf("it has no input %s", name)
		}
	}
	pixels, samples, logits := inputs["pixel_values"].Dims, inputs["input_values"].Dims, outputs["logits"]
	switch {
	case len(pixels) != 4 || pixels[1] != 3 || !within(pixels[2], maxSide) || pixels[2] != pixels[3]:
		return errors.New("its input pixel_values is not of shape (batch, 3, side, side)")
	case len(samples) != 2 || !within(samples[1], maxSamples):
		return errors.New("its input input_values is not of shape (batch, samples)")
	case logits == nil || len(logits.Dims) != 2 || !within(logits.Dims[1], maxVocabulary):
		return errors.New("it has no output logits of shape (batch, labels)")
	}
	c.layout.ImageSide, c.layout.AudioSamples, c.layout.Labels = int(pixels[2]), int(samples[1]), int(logits.Dims[1])
	return nil
}

// Layout implements [classifier.Model].
func (c *Classifier) Layout() classifier.Layout { return c.layout }

// Classify implements [classifier.Model].
func (c *Classifier) Classify(batch []classifier.Input) ([]float32, error) {
	rows, length := len(batch), 1
	for _, in := range batch {
		length = max(length, len(in.Tokens))
	}
	pixels, samples := 3*c.layout.ImageSide*c.layout.ImageSide, c.layout.AudioSamples
	ids, mask := make([]int64, rows*length), make([]int64, rows*length)
	images, sounds := make([]float32, rows*pixels), make([]float32, rows*samples)
	there := make([]float32, rows*modalities)
	for r, in := range batch {
		copy(ids[r*length:], in.Tokens)
		for i := range in.Tokens {
			mask[r*length+i] = 1
		}
		copy(images[r*pixels:], in.Image)
		copy(sounds[r*samples:], in.Audio)
		for m, given := range []bool{in.Tokens != nil, in.Image != nil, in.Audio != nil} {
			if given {
				there[r*modalities+m] = 1
			}
		}
	}
	logits := make([]float32, rows*c.layout.Labels)
	n, side := int64(rows), int64(c.layout.ImageSide)
	return logits, c.run(
		[]held{
			tensorOf(ids, n, int64(length)), tensorOf(mask, n, int64(length)), tensorOf(images, n, 3, side, side),
			tensorOf(sounds, n, int64(samples)), tensorOf(there, n, modalities),
		},
		tensorOf(logits, n, int64(c.layout.Labels)))
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
