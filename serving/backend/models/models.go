// Package models makes model files to try an engine with where no trained ones
// are at hand: a family of decoders of several sizes with random weights. Their
// compute, memory and layout are those of real models; their words mean nothing.
package models

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Size of one model of a family.
type Size struct {
	Name          string
	Layers, Width int
}

// headWidth is that of GPT-2 and OPT. Narrower models have one head, of a width that
// ONNX Runtime's attention takes.
const (
	headWidth = 64
	headStep  = 8
)

// The bounds of a Size. A model is one file of protocol buffers, which are of 2 GiB at
// most.
const (
	maxLayers     = 96
	maxWidth      = 8192
	maxParameters = 500_000_000
)

// ParseSize reads NAME=LAYERSxWIDTH.
func ParseSize(text string) (Size, error) {
	name, shape, _ := strings.Cut(text, "=")
	layers, width, _ := strings.Cut(shape, "x")
	s := Size{Name: name}
	var errs [2]error
	s.Layers, errs[0] = strconv.Atoi(layers)
	s.Width, errs[1] = strconv.Atoi(width)
	switch {
	case errors.Join(errs[:]...) != nil || !isName(name):
		return s, fmt.Errorf("%q is no size; want NAME=LAYERSxWIDTH, such as small=4x192", text)
	case s.Layers < 1 || s.Layers > maxLayers:
		return s, fmt.Errorf("%q: want 1 to %d layers", text, maxLayers)
	case s.Width < headStep || s.Width > maxWidth || s.Width%headStep != 0 || s.Width > headWidth && s.Width%headWidth != 0:
		return s, fmt.Errorf("%q: want a width from %d to %d that is a multiple of %d, and above %d of that", text, headStep, maxWidth, headStep, headWidth)
	case s.blockParameters() > maxParameters:
		return s, fmt.Errorf("%q has some %d million parameters; want at most %d: one file holds them all", text, s.blockParameters()/1e6, maxParameters/1_000_000)
	}
	return s, nil
}

// blockParameters are those of the layers, except biases and norms: next to all.
func (s Size) blockParameters() int { return 12 * s.Layers * s.Width * s.Width }

func isName(s string) bool {
	for _, r := range s {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", r) {
			return false
		}
	}
	return s != "" && s[0] != '.'
}

// Decoders are the sizes of the decoder family: in compute per token about
// 1 : 2 : 4. The weights of none stay in a processor's cache, as those of no language
// model stay in a GPU's: a step reads them from memory each time. One that has them
// in its cache takes a third less when it has computed nothing else for a while, and no
// latency model says when that is.
func Decoders() []Size {
	return []Size{{"small", 8, 448}, {"medium", 10, 576}, {"large", 12, 768}}
}

// Options of a family to be made.
type Options struct {
	Sizes   []Size
	Context int // tokens
	Seed    uint64
	Force   bool // replace what is there
	Concat  bool // of decoders: see Decoder.Concat
}

// model is what a family makes of a size.
type model interface {
	ONNX() []byte
	Parameters() int
	config() []byte
}

// MakeDecoders writes a folder for each size: model.onnx, config.json and
// tokenizer.json. It calls done after each. A folder is whole or not there.
// Where the context ends, no further one is written.
func MakeDecoders(ctx context.Context, dir string, o Options, done func(folder string, parameters int)) error {
	return makeFamily(ctx, dir, o, tokenizerJSON(), done, func(s Size, seed uint64) model {
		d := NewDecoder(s, o.Context, seed)
		d.Concat = o.Concat
		return d
	})
}

// MakeClassifiers does the same with classifiers.
func MakeClassifiers(ctx context.Context, dir string, o Options, done func(folder string, parameters int)) error {
	return makeFamily(ctx, dir, o, tokenizerJSON(), done, func(s Size, seed uint64) model { return NewClassifier(s, o.Context, seed) })
}

// makeFamily writes the models that draw makes. The tokenizer is nil where they take no text.
func makeFamily(ctx context.Context, dir string, o Options, tokenizer []byte, done func(string, int), draw func(Size, uint64) model) error {
	for i, size := range o.Sizes {
		d := draw(size, o.Seed+uint64(i)<<32)
		files := map[string][]byte{"model.onnx": d.ONNX(), "config.json": d.config()}
		if tokenizer != nil {
			files["tokenizer.json"] = tokenizer
		}
		folder := filepath.Join(dir, size.Name)
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := Write(folder, files, o.Force); err != nil {
			return err
		}
		done(folder, d.Parameters())
	}
	return nil
}

// Vacant says why a model's folder could not be written, as far as that is known before:
// it exists, and is not to be replaced.
func Vacant(folder string, force bool) error {
	if _, err := os.Stat(folder); err == nil && !force {
		return fmt.Errorf("cannot write model: %s already exists; --force replaces it", folder)
	}
	return nil
}

// Write writes the files of a model, by name, next to its folder and then replaces it.
func Write(folder string, files map[string][]byte, force bool) error {
	if err := Vacant(folder, force); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return fmt.Errorf("cannot write model: %w", err)
	}
	partial, err := os.MkdirTemp(filepath.Dir(folder), ".partial-")
	if err != nil {
		return fmt.Errorf("cannot write model: %w", err)
	}
	defer os.RemoveAll(partial)
	if err := os.Chmod(partial, 0o755); err != nil {
		return fmt.Errorf("cannot write model: %w", err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(partial, name), data, 0o644); err != nil {
			return fmt.Errorf("cannot write model: %w", err)
		}
	}
	if force {
		if err := clearModel(folder, files); err != nil {
			return fmt.Errorf("cannot write model: %w", err)
		}
	}
	if err := os.Rename(partial, folder); err != nil {
		return fmt.Errorf("cannot write model: %w", err)
	}
	return nil
}

// clearModel removes a folder of a model, and no other: one that holds anything
// but the files stays as it is, with an error.
func clearModel(folder string, files map[string][]byte) error {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if _, ours := files[e.Name()]; !ours || e.IsDir() {
			return fmt.Errorf("%s holds %s, which is no file of a made model; nothing of it is removed", folder, e.Name())
		}
	}
	for name := range files {
		if err := os.Remove(filepath.Join(folder, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := os.Remove(folder); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
