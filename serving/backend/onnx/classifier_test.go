//go:build onnx && cgo

package onnx

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gearshift/serving/backend/classifier"
	"gearshift/serving/backend/models"
)

var narrow = models.Size{Name: "narrow", Layers: 2, Width: 16}

func writeClassifier(t *testing.T) string {
	t.Helper()
	load(t)
	dir := t.TempDir()
	if err := models.MakeClassifiers(t.Context(), dir, models.Options{Sizes: []models.Size{narrow}, Context: testContext, Seed: testSeed}, func(string, int) {}); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, narrow.Name)
}

func openClassifierTest(t *testing.T) *Classifier {
	t.Helper()
	m, err := OpenClassifier(writeClassifier(t), models.Vocabulary, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// The runtime computes what plain loops compute, for each set of modalities, alone
// and in a batch of all of them.
func TestClassifierParity(t *testing.T) {
	m := openClassifierTest(t)
	c := models.NewClassifier(narrow, testContext, testSeed)
	random := rand.New(rand.NewPCG(1, 2))
	noise := func(n int) []float32 {
		list := make([]float32, n)
		for i := range list {
			list[i] = float32(random.NormFloat64())
		}
		return list
	}
	var batch []classifier.Input
	var want []float64
	for set := range 8 {
		var in classifier.Input
		if set&1 > 0 {
			in.Tokens = randomTokens(random, 3+set)
		}
		if set&2 > 0 {
			in.Image = noise(3 * models.ImageSide * models.ImageSide)
		}
		if set&4 > 0 {
			in.Audio = noise(models.AudioSamples)
		}
		logits, err := m.Classify([]classifier.Input{in})
		if err != nil {
			t.Fatal(err)
		}
		expected := fuse(c, in)
		if by := differ(logits, expected); by > tolerance {
			t.Errorf("set %03b: logits differ by %g", set, by)
		}
		batch, want = append(batch, in), append(want, expected...)
	}
	logits, err := m.Classify(batch)
	if err != nil {
		t.Fatal(err)
	}
	if by := differ(logits, want); by > tolerance {
		t.Errorf("in a batch: logits differ by %g", by)
	}
}

// fuse is the classifier by plain loops.
func fuse(c *models.Classifier, in classifier.Input) []float64 {
	sum, parts := make([]float64, models.Labels), 0
	part := func(name string, x []float64) {
		for i := range c.Layers {
			h := times(c, fmt.Sprintf("%s.%d.expand", name, i), standard(x))
			for j := range h {
				h[j] = max(0, h[j])
			}
			addTo(x, times(c, fmt.Sprintf("%s.%d.contract", name, i), h))
		}
		addTo(sum, times(c, name+".head", standard(x)))
		parts++
	}
	if in.Tokens != nil {
		x, table := make([]float64, c.Width), c.Weights["text.tokens"].Values
		for _, token := range in.Tokens {
			for j := range x {
				x[j] += float64(table[int(token)*c.Width+j]) / float64(len(in.Tokens))
			}
		}
		part("text", x)
	}
	if in.Image != nil {
		part("image", patches(c, in.Image))
	}
	if in.Audio != nil {
		part("audio", windows(c, in.Audio))
	}
	for i := range sum {
		sum[i] /= float64(max(1, parts))
	}
	return sum
}

// patches is the mean over 8 × 8 patches of what each filter finds there.
func patches(c *models.Classifier, image []float32) []float64 {
	const side, patch, count = models.ImageSide, 8, models.ImageSide / 8
	x := make([]float64, c.Width)
	for f := range x {
		filter := c.Weights["image.patches"].Values[f*3*patch*patch:]
		for p := range count * count {
			found := 0.0
			for colour := range 3 {
				for y := range patch {
					for z := range patch {
						pixel := image[(colour*side+p/count*patch+y)*side+p%count*patch+z]
						found += float64(pixel) * float64(filter[(colour*patch+y)*patch+z])
					}
				}
			}
			x[f] += max(0, found) / (count * count)
		}
	}
	return x
}

// windows is the mean over windows of 400 samples, 200 apart.
func windows(c *models.Classifier, audio []float32) []float64 {
	const window, hop = 400, 200
	count := (len(audio)-window)/hop + 1
	x := make([]float64, c.Width)
	for f := range x {
		filter := c.Weights["audio.windows"].Values[f*window : (f+1)*window]
		for w := range count {
			found := 0.0
			for i, weight := range filter {
				found += float64(audio[w*hop+i]) * float64(weight)
			}
			x[f] += max(0, found) / float64(count)
		}
	}
	return x
}

func times(c *models.Classifier, name string, x []float64) []float64 {
	t := c.Weights[name]
	return dense(models.Dense{Weights: t.Values, Bias: make([]float32, t.Dims[1])}, x)
}

func standard(x []float64) []float64 {
	ones := slices.Repeat([]float32{1}, len(x))
	return norm(models.Norm{Gain: ones, Offset: make([]float32, len(x))}, x)
}

func TestBadClassifiers(t *testing.T) {
	folder := writeClassifier(t)
	path := filepath.Join(folder, "model.onnx")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := os.ReadFile(filepath.Join(write(t, tiny), "model.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]struct {
		data    []byte
		options Options
		lacking int // tokens of config.json
	}{
		"config.json has no vocab_size":            {data: good, lacking: models.Vocabulary},
		"it has no input input_ids":                {data: []byte(strings.ReplaceAll(string(good), "input_ids", "output_id"))},
		"it is no whole ONNX file":                 {data: good[:len(good)/2]},
		"it has no input modality_mask":            {data: decoder},
		"it has no output logits":                  {data: []byte(strings.ReplaceAll(string(good), "logits", "ligots"))},
		"exceed the declared memory of 1000":       {data: good, options: Options{MaxBytes: 1000}},
		`unknown execution provider "tpu"; want c`: {data: good, options: Options{Provider: "tpu"}},
	} {
		if err := os.WriteFile(path, c.data, 0o644); err != nil {
			t.Fatal(err)
		}
		m, err := OpenClassifier(folder, models.Vocabulary-c.lacking, c.options)
		if err == nil {
			m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
