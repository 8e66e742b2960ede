package families

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"gearshift/rl/supervised"
	"gearshift/serving/backend/models"
	"gearshift/workloads/scenes"
)

// BoxesSizes are those of the family: the small one takes about a third of the time.
func BoxesSizes() []models.Size {
	return []models.Size{{Name: "boxes", Layers: 3, Width: 64}, {Name: "boxes-small", Layers: 2, Width: 32}}
}

const (
	mostBoxesWidth = 256
	// trainingScenes is added to the seeds of scenes to train with: none of a seed below is trained with.
	trainingScenes = 1 << 63
	// trainingCount is how many scenes there are to train with, at any moment of each.
	trainingCount = 256
	lastFrame     = 1_000_000
)

var boxesTraining = supervised.Config{Batch: 16, Rate: 4e-3, Clip: 5}

// boxesSteps is half of how long a model of width 64 is trained. A narrower one, whose steps take less, is trained longer.
const boxesSteps = 500

// boxesShape is the network of a size: three convolutions that halve the picture, of which the last has the width, as
// many more as there are layers, and one for the numbers of each cell.
func boxesShape(s models.Size) ([]supervised.Convolution, error) {
	if s.Width > mostBoxesWidth {
		return nil, fmt.Errorf("--size %s=%dx%d: a model of boxes is at most %d wide", s.Name, s.Layers, s.Width, mostBoxesWidth)
	}
	shape := []supervised.Convolution{
		{Kernel: 5, Stride: 2, Out: s.Width / 4}, {Kernel: 3, Stride: 2, Out: s.Width / 2}, {Kernel: 3, Stride: 2, Out: s.Width},
	}
	for range s.Layers {
		shape = append(shape, supervised.Convolution{Kernel: 3, Stride: 1, Out: s.Width})
	}
	return append(shape, supervised.Convolution{Kernel: 1, Stride: 1, Out: scenes.Values}), nil
}

// MakeBoxes trains a detector and writes its folder: model.onnx, config.json and quality.json. The folder is whole or not
// there.
func MakeBoxes(ctx context.Context, o MakeOptions) (*Made, error) {
	m := &Made{Folder: filepath.Join(o.Dir, o.Size.Name)}
	if err := models.Vacant(m.Folder, o.Force); err != nil {
		return nil, err
	}
	o.Steps = cmp.Or(o.Steps, boxesSteps*(1+max(1, 64/o.Size.Width)))
	began := time.Now()
	n, err := trainBoxes(ctx, o.Size, o.Seed, o.Steps, reportSteps(o.Steps, began, o.Progress))
	if err != nil {
		return nil, err
	}
	m.Training, m.Parameters = time.Since(began), n.Parameters()
	files := map[string][]byte{"model.onnx": boxesONNX(n), "config.json": boxesConfig()}
	d, by, end, err := n.detector(files)
	if err != nil {
		return nil, err
	}
	defer end()
	q := &BoxesQuality{Model: o.Size.Name, Seed: o.Seed, Steps: o.Steps, CountedBy: by}
	m.Quality = q
	if err := q.count(ctx, d, o.Progress); err != nil {
		return nil, err
	}
	if files[QualityFile], err = json.MarshalIndent(q, "", "  "); err != nil {
		return nil, err
	}
	return m, models.Write(m.Folder, files, o.Force)
}

// boxesNetwork is a detector that has learnt.
type boxesNetwork struct{ *supervised.Convolutions }

// trainBoxes trains a network with frames of scenes, at any moment of each.
func trainBoxes(ctx context.Context, size models.Size, seed uint64, steps int, progress func(supervised.Progress)) (*boxesNetwork, error) {
	shape, err := boxesShape(size)
	if err != nil {
		return nil, err
	}
	var videos []*scenes.Scene
	for i := range uint64(trainingCount) {
		videos = append(videos, scenes.New(trainingScenes+seed*trainingCount+i, scenes.Usual))
	}
	n := supervised.NewConvolutions(scenes.Side, 1, shape, rand.New(rand.NewPCG(seed, weightStream)))
	c := boxesTraining
	c.Steps = steps
	draw := func(step, row int, picture []float32) supervised.Loss {
		random := rand.New(rand.NewPCG(seed, exampleStream+uint64(step)<<16+uint64(row)<<40))
		video, at, frame := videos[random.IntN(len(videos))], random.IntN(lastFrame), scenes.NewFrame()
		video.Draw(frame, at)
		scenes.Input(picture, frame)
		boxes := video.Boxes(at)
		return func(outputs, gradient []float32) float64 { return scenes.Loss(boxes, outputs, gradient) }
	}
	if err := supervised.TrainConvolutions(ctx, n, c, draw, progress); err != nil {
		return nil, fmt.Errorf("cannot train the model of boxes: %w", err)
	}
	return &boxesNetwork{n}, nil
}

// detect is the boxes that the network finds in frames.
func (n *boxesNetwork) detect(frames [][]float32) (found [][]scenes.Box, err error) {
	for _, f := range frames {
		found = append(found, scenes.Found(n.Outputs(f)))
	}
	return found, nil
}

// mean returns that of some numbers.
func mean(list []float64) (sum float64) {
	for _, v := range list {
		sum += v
	}
	return sum / float64(max(1, len(list)))
}
