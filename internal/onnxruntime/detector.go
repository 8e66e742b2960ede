package onnxruntime

import (
	"fmt"

	"gearshift/internal/scenario"
	"gearshift/serving/backend/classifier"
	"gearshift/workloads/scenes"
)

// Detector finds boxes in frames, by a model that `gearshift models make --family boxes` has made.
type Detector struct {
	model classifier.Model
	batch []classifier.Input // whose images are used again
}

// OpenDetector loads the model of a folder, to compute with so many threads; 0 is 1.
func OpenDetector(path string, threads int) (*Detector, error) {
	m, err := openClassifier(Config{Local: scenario.Local{Path: path, Threads: threads}}, 0)
	if err != nil {
		return nil, err
	}
	want := classifier.Layout{Labels: scenes.Cells * scenes.Cells * scenes.Values, ImageSide: scenes.Side}
	if got := m.Layout(); got != want {
		m.Close()
		return nil, fmt.Errorf("cannot find boxes by model %s: "+
			"it gives %d numbers for an image of %d pixels each way; want %d for %d, as a model of --family boxes",
			path, got.Labels, got.ImageSide, want.Labels, want.ImageSide)
	}
	return &Detector{model: m}, nil
}

// Detect returns the boxes in each of the frames, which are given as [scenes.Input] writes them, computed in one batch. One
// goroutine may call it at a time.
func (d *Detector) Detect(frames [][]float32) ([][]scenes.Box, error) {
	for i, f := range frames {
		if i == len(d.batch) {
			d.batch = append(d.batch, classifier.Input{})
		}
		b := &d.batch[i]
		b.Image = append(append(append(b.Image[:0], f...), f...), f...)
	}
	outputs, err := d.model.Classify(d.batch[:len(frames)])
	if err != nil {
		return nil, err
	}
	boxes := make([][]scenes.Box, len(frames))
	for i := range boxes {
		size := len(outputs) / len(frames)
		boxes[i] = scenes.Found(outputs[i*size : (i+1)*size])
	}
	return boxes, nil
}

// Close frees the model.
func (d *Detector) Close() { d.model.Close() }
