package families

import (
	"context"
	"fmt"
	"math/rand/v2"

	"gearshift/rl/supervised"
	data "gearshift/workloads/digits"
)

// The streams of random numbers that a seed has besides those of the split.
const (
	fitStream     = 0x666974
	weightStream  = 0x776569
	exampleStream = 0x657861
)

const digitsSteps = 300

var digitsTraining = supervised.Config{Batch: 96, Rate: 1e-3, Clip: 1}

// trainedDigits is a network that has learnt, and how it reads examples.
type trainedDigits struct {
	*reader
	split   *data.Split
	network *supervised.Network
}

// trainDigits trains a network of the shape with so many steps.
func trainDigits(ctx context.Context, s *shape, split *data.Split, seed uint64, steps int, progress func(supervised.Progress)) (*trainedDigits, error) {
	t := &trainedDigits{reader: newReader(s), split: split}
	t.fit(split, seed)
	var err error
	if t.network, err = supervised.New(s.encoders(), data.Labels, rand.New(rand.NewPCG(seed, weightStream))); err != nil {
		return nil, err
	}
	c := digitsTraining
	c.Steps = steps
	fill := func(step, row int, features [][]float32) int {
		e := t.free.Get().(*scratch)
		defer t.free.Put(e)
		split.Draw(&e.Example, data.Training, rand.New(rand.NewPCG(seed, exampleStream+uint64(step)<<16+uint64(row)<<40)))
		e.features(t.reader, features)
		return e.Label
	}
	if err := supervised.Train(ctx, t.network, c, fill, progress); err != nil {
		return nil, fmt.Errorf("cannot train the model of digits: %w", err)
	}
	return t, nil
}

// classify is the network's answer to an example of the part with the inputs of a subset.
func (t *trainedDigits) classify(p data.Part, subset, first, n int) (labels []int) {
	e := t.free.Get().(*scratch)
	defer t.free.Put(e)
	features := make([][]float32, len(t.network.Parts))
	for i, part := range t.network.Parts {
		if subset>>i&1 == 1 {
			features[i] = make([]float32, n*part.Features())
		}
	}
	row := make([][]float32, len(features))
	for k := range n {
		t.split.Example(&e.Example, p, first+k)
		for i, part := range t.network.Parts {
			if features[i] != nil {
				row[i] = features[i][k*part.Features():][:part.Features()]
			}
		}
		e.features(t.reader, row)
	}
	logits := t.network.Logits(features)
	for k := range n {
		labels = append(labels, likeliest(logits[k*data.Labels:(k+1)*data.Labels]))
	}
	return labels
}

// likeliest is the index of the highest of the logits.
func likeliest(logits []float32) (best int) {
	for i, l := range logits {
		if l > logits[best] {
			best = i
		}
	}
	return best
}
