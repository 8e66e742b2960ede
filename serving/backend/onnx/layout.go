//go:build onnx && cgo

package onnx

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gearshift/checkpoints/onnxfile"
	"gearshift/serving/backend/decoder"
)

// layout is how the cache of a model lies, as its file declares it.
type layout struct {
	layers, heads, width, vocabulary int
	positions                        bool     // it takes position_ids
	inPlace                          bool     // past and present may be the same memory
	inputs, outputs                  []string // in the order in which they are given
	fileBytes                        int64    // with the weights next to the file
}

// The parts of the names of a cache's inputs and outputs.
const (
	pastPrefix    = "past_key_values."
	presentPrefix = "present."
)

// The widest layers and the largest vocabulary that are believed; both are far
// beyond any model's.
const (
	maxWidth      = 1 << 20
	maxVocabulary = 1 << 24
)

// ReadLayout reads what DIR/model.onnx needs of memory, without loading it.
func ReadLayout(dir string) (decoder.Layout, error) {
	path := filepath.Join(dir, "model.onnx")
	l, err := layoutOf(path, Options{})
	if err != nil {
		return decoder.Layout{}, fmt.Errorf("cannot read model %s: %w", path, err)
	}
	return (&Model{layout: l}).Layout(), nil
}

// layoutOf holds a model file against what Hugging Face Optimum exports of a decoder with
// past.
func layoutOf(path string, o Options) (*layout, error) {
	outline, size, err := readFile(path, o)
	if err != nil {
		return nil, err
	}
	inputs, outputs, err := onnxfile.Signature(outline)
	if err != nil {
		return nil, err
	}
	l := &layout{fileBytes: size}
	if l.inPlace, err = onnxfile.Uses(outline, "GroupQueryAttention"); err != nil {
		return nil, err
	}
	if err := l.read(inputs, outputs); err != nil {
		return nil, fmt.Errorf("%s is not in the layout of a decoder with past, as Hugging Face Optimum exports it: %w", filepath.Base(path), err)
	}
	return l, nil
}

func (l *layout) read(inputs, outputs []onnxfile.Value) error {
	given, made := byName(inputs), byName(outputs)
	for l.layers = 0; given[past(l.layers, "key")] != nil; l.layers++ {
	}
	if l.layers == 0 {
		return fmt.Errorf("it has no input %s", past(0, "key"))
	}
	l.inputs, l.outputs = []string{"input_ids", "attention_mask"}, []string{"logits"}
	if l.positions = given["position_ids"] != nil; l.positions {
		l.inputs = append(l.inputs, "position_ids")
	}
	for _, name := range l.inputs {
		if v := given[name]; v == nil || v.Kind != onnxfile.Int64 {
			return fmt.Errorf("it has no input %s of int64", name)
		}
	}
	for i := range l.layers {
		for _, kind := range []string{"key", "value"} {
			l.inputs = append(l.inputs, past(i, kind))
			l.outputs = append(l.outputs, fmt.Sprintf("%s%d.%s", presentPrefix, i, kind))
		}
	}
	for name := range given {
		if !slices.Contains(l.inputs, name) {
			return fmt.Errorf("it has an input %q that is not understood", name)
		}
	}
	for _, name := range l.outputs {
		if v := made[name]; v == nil || v.Kind != onnxfile.Float32 {
			return fmt.Errorf("it has no output %s of float32", name)
		}
	}
	return l.shapes(given, made["logits"])
}

// shapes reads the sizes that are fixed.
func (l *layout) shapes(given map[string]*onnxfile.Value, logits *onnxfile.Value) error {
	for _, name := range l.inputs {
		if !strings.HasPrefix(name, pastPrefix) {
			continue
		}
		v := given[name]
		if v == nil || v.Kind != onnxfile.Float32 || len(v.Dims) != 4 || !within(v.Dims[1], maxWidth) || !within(v.Dims[3], maxWidth/v.Dims[1]) {
			return fmt.Errorf("its input %s is not float32 of shape (batch, heads, past, width) with heads and width given", name)
		}
		heads, width := int(v.Dims[1]), int(v.Dims[3])
		if l.heads == 0 {
			l.heads, l.width = heads, width
		}
		if heads != l.heads || width != l.width {
			return fmt.Errorf("its input %s has %d heads of %d, the first layer %d of %d", name, heads, width, l.heads, l.width)
		}
	}
	if len(logits.Dims) != 3 || !within(logits.Dims[2], maxVocabulary) {
		return errors.New("its output logits is not of shape (batch, length, vocabulary) with the vocabulary given")
	}
	l.vocabulary = int(logits.Dims[2])
	return nil
}

func within(n, most int64) bool { return n >= 1 && n <= most }

func past(layer int, kind string) string { return fmt.Sprintf("%s%d.%s", pastPrefix, layer, kind) }

func byName(list []onnxfile.Value) map[string]*onnxfile.Value {
	m := map[string]*onnxfile.Value{}
	for i := range list {
		m[list[i].Name] = &list[i]
	}
	return m
}

// perToken is how many numbers a token takes in each tensor of the cache.
func (l *layout) perToken() int { return l.heads * l.width }
