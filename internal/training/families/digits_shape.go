package families

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"

	"gearshift/rl/supervised"
	"gearshift/serving/backend/models"
	data "gearshift/workloads/digits"
)

// DigitsSizes are those of the family: one, of which both inputs take ten milliseconds and more
// on a core. It is wide for that: the digits need less, but then there is nothing to
// choose.
func DigitsSizes() []models.Size { return []models.Size{{Name: "digits", Layers: 3, Width: 512}} }

// maxWidth bounds a size: its parameters grow by two hundred times its square.
const maxWidth = 1024

// shape is how a size sees its inputs.
type shape struct {
	models.Size
	patches     models.Patches
	spectrogram models.Spectrogram
}

func newShape(s models.Size) (*shape, error) {
	if s.Width > maxWidth {
		return nil, fmt.Errorf("--size %s=%dx%d: a model of digits is at most %d wide", s.Name, s.Layers, s.Width, maxWidth)
	}
	return &shape{s,
		models.Patches{Side: data.Side, Size: 7, Step: 3, Pool: 2},
		models.Spectrogram{
			Rate: data.Rate, Samples: data.Samples, Window: 256, Hop: 78, Bands: 32, Width: 8, Step: 4, Pool: 3,
			Shift: make([]float32, 32), Scale: slices.Repeat([]float32{1}, 32),
		},
	}, nil
}

// encoders are what is trained: sound, which says more, has the wider layers.
func (s *shape) encoders() []supervised.Encoder {
	each := slices.Repeat([]int{s.Width}, s.Layers)
	return []supervised.Encoder{
		{Name: "image", Inputs: s.patches.Inputs(), Each: each, Groups: s.patches.Groups(), Whole: []int{3 * s.Width}},
		{Name: "audio", Inputs: s.spectrogram.Inputs(), Each: each, Groups: s.spectrogram.Groups(), Whole: []int{10 * s.Width, 6 * s.Width}},
	}
}

// fusion is the network as a model that is served.
func (s *shape) fusion(n *supervised.Network) *models.Fusion {
	layers := func(p *supervised.Part) (l models.Layers) {
		for i, d := range p.Layers {
			list := &l.Each
			if i >= len(p.Each) {
				list = &l.Whole
			}
			*list = append(*list, models.Dense{Weights: d.Weights, Bias: d.Biases})
		}
		return l
	}
	f := &models.Fusion{
		Image: &models.ImageEncoder{Patches: s.patches, Layers: layers(n.Parts[0])},
		Audio: &models.SoundEncoder{Spectrogram: &s.spectrogram, Layers: layers(n.Parts[1])},
	}
	for label := range data.Labels {
		f.Labels = append(f.Labels, strconv.Itoa(label))
	}
	return f
}

// reader turns examples into features. Several goroutines may use it.
type reader struct {
	*shape
	free sync.Pool // of scratch
}

// scratch is one goroutine's memory.
type scratch struct {
	data.Example
	gray, sound []float32
	*models.Analysis
}

func newReader(s *shape) *reader {
	return &reader{shape: s, free: sync.Pool{New: func() any {
		return &scratch{gray: make([]float32, data.Side*data.Side), sound: make([]float32, data.Samples), Analysis: s.spectrogram.Analysis()}
	}}}
}

// The numbers that a served classifier makes of a byte of gray and of a sample.
func gray(b byte) float32       { return float32(uint32(b)*0x101)/0x7fff - 1 }
func amplitude(s int16) float32 { return float32(s) / 0x8000 }

// hear fills in the sound of the example.
func (s *scratch) hear() {
	for i, v := range s.Example.Samples {
		s.sound[i] = amplitude(v)
	}
}

// features writes those of the example; what is nil is left out.
func (s *scratch) features(r *reader, features [][]float32) {
	if image := features[0]; image != nil {
		for i, b := range s.Pixels {
			s.gray[i] = gray(b)
		}
		r.patches.Features(image, s.gray)
	}
	if sound := features[1]; sound != nil {
		s.hear()
		s.Analysis.Features(sound, s.sound)
	}
}

// fit sets the spectrogram's shift and scale so that its levels have a mean of 0 and a
// deviation of 1 in each band, over some examples to train with.
func (r *reader) fit(split *data.Split, seed uint64) {
	const examples = 200
	s := r.free.Get().(*scratch)
	defer r.free.Put(s)
	random := rand.New(rand.NewPCG(seed, fitStream))
	bands := r.spectrogram.Bands
	count, sums, squares := 0.0, make([]float64, bands), make([]float64, bands)
	for range examples {
		split.Draw(&s.Example, data.Training, random)
		s.hear()
		levels := s.Levels(s.sound)
		frames := len(levels) / bands
		for i, v := range levels {
			sums[i/frames] += float64(v)
			squares[i/frames] += float64(v) * float64(v)
		}
		count += float64(frames)
	}
	for b := range bands {
		mean := sums[b] / count
		r.spectrogram.Shift[b] = float32(mean)
		r.spectrogram.Scale[b] = float32(1 / math.Sqrt(max(1e-6, squares[b]/count-mean*mean)))
	}
}
