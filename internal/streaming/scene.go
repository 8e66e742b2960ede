package streaming

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/jpeg"
	"math/rand/v2"
	"sync"

	"gearshift/serving/streams"
	"gearshift/workloads/scenes"
)

// square is a square that moves over a picture, drawn ahead, with a drop rate in place of a tracker.
type square struct {
	pictures [][]byte
	offset   int
	rate     float64
	random   *rand.Rand
	estimate float64
}

// Frame implements [streams.Scene].
func (d *square) Frame(number int) []byte {
	return d.pictures[(number+d.offset)%len(d.pictures)]
}

// Track implements [streams.Scene]: each result says the rate with some noise.
func (d *square) Track(result *streams.Down, _ int, _ streams.Reference) float64 {
	const weight = 0.25
	if result != nil {
		d.estimate += weight * (d.rate*max(0, 1+0.1*d.random.NormFloat64()) - d.estimate)
	}
	return d.estimate
}

// squares are some frames with a square that moves.
func squares(width, height int) (list [][]byte) {
	const frames = 16
	for k := range frames {
		picture := image.NewYCbCr(image.Rect(0, 0, width, height), image.YCbCrSubsampleRatio420)
		for y := range height {
			for x := range width {
				picture.Y[picture.YOffset(x, y)] = byte(40 + 120*x/width)
			}
		}
		for i := range picture.Cb {
			picture.Cb[i], picture.Cr[i] = 128, 128
		}
		side := height / 4
		left := (width - side) * k / frames
		for y := side; y < 2*side; y++ {
			for x := left; x < left+side; x++ {
				picture.Y[picture.YOffset(x, y)] = 230
			}
		}
		var b bytes.Buffer
		_ = jpeg.Encode(&b, picture, nil) // a buffer takes it
		list = append(list, b.Bytes())
	}
	return list
}

// scene is a drawn scene whose boxes are known: results have the boxes that a detector has found.
type scene struct {
	scenes.Viewer
	begin float64 // the drop rate until it is estimated
	frame *image.Gray

	mu  sync.Mutex // protects all below
	err error      // the first
}

// firstScene is not one of those that detectors are trained with.
const firstScene = 1 << 33

// newScene returns the scene of a client; they are from calm to hard.
func newScene(seed uint64, client int, begin float64) *scene {
	random := rand.New(rand.NewPCG(seed, uint64(client)))
	difficulty := scenes.Calm + (scenes.Hard-scenes.Calm)*random.Float64()
	return &scene{Viewer: scenes.Viewer{Scene: scenes.New(firstScene+random.Uint64N(1<<32), difficulty)}, begin: begin, frame: scenes.NewFrame()}
}

// Frame implements [streams.Scene].
func (s *scene) Frame(number int) []byte {
	s.Scene.Draw(s.frame, number)
	b, err := scenes.Shrunk(s.frame)
	s.failed(err)
	return b
}

// Track implements [streams.Scene].
func (s *scene) Track(result *streams.Down, ready int, r streams.Reference) float64 {
	if result == nil {
		s.Lose(ready)
		return -1
	}
	boxes, err := boxesIn(result)
	if err != nil {
		s.failed(err)
		return -1
	}
	s.Result(boxes, result.Frame, ready, scenes.Reference{First: r.First, Frames: r.Every})
	return s.Rate(s.begin)
}

func (s *scene) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// boxesIn returns the boxes that a result has.
func boxesIn(d *streams.Down) ([]scenes.Box, error) {
	const want = scenes.Cells * scenes.Cells * scenes.Values
	for name, text := range d.Outputs {
		var outputs []float32
		if err := json.Unmarshal(text, &outputs); err != nil || len(outputs) != want {
			return nil, fmt.Errorf("output %q is not of boxes: it has %d numbers; want %d, as a model of --family boxes", name, len(outputs), want)
		}
		return scenes.Found(outputs), nil
	}
	return nil, fmt.Errorf("results without outputs; want those of a model of --family boxes")
}
