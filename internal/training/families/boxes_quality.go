package families

import (
	"context"
	"fmt"
	"image"
	"math"
	"slices"
	"strings"

	"gearshift/router/offload"
	"gearshift/workloads/scenes"
)

// BoxesQuality says how well a detector finds the boxes of scenes that it was not trained with, and what a tracker
// loses that goes on from there.
type BoxesQuality struct {
	Model string `json:"model"`
	Seed  uint64 `json:"seed"`
	Steps int    `json:"training_steps"`
	// CountedBy is what computed: the exported file, or the network that was trained.
	CountedBy string         `json:"counted_by"`
	HeldOut   []BoxesDropped `json:"held_out"`
}

// BoxesDropped is the accuracy in scenes of a difficulty, see [scenes.Accuracy].
type BoxesDropped struct {
	Difficulty float64 `json:"difficulty"`
	Frames     int     `json:"frames"`
	Accuracy   float64 `json:"accuracy"`
	// Drop is how much less the accuracy of boxes is that were tracked for 1, 2, … frames, and Seen how far
	// they are from those that the detector finds in the same frame: what a client can know.
	Drop []float64 `json:"drop"`
	Seen []float64 `json:"seen"`
	// Lost and Found are lines through them.
	Lost  Fit `json:"lost"`
	Found Fit `json:"found"`
}

// Fit is a line through values at 1, 2, …: Start at 0, and Rate more with each. Off is the standard deviation from it.
type Fit struct {
	Start float64 `json:"start"`
	Rate  float64 `json:"rate"`
	Off   float64 `json:"off"`
}

// lineThrough fits a line by least squares.
func lineThrough(values []float64) (l Fit) {
	n := float64(len(values))
	middle, level := (n+1)/2, mean(values)
	var spread, both float64
	for i, v := range values {
		x := float64(i+1) - middle
		spread, both = spread+x*x, both+x*(v-level)
	}
	l.Rate = both / spread
	l.Start = level - l.Rate*middle
	for i, v := range values {
		off := v - l.Start - l.Rate*float64(i+1)
		l.Off += off * off / n
	}
	l.Off = math.Sqrt(l.Off)
	return l
}

// What is counted: so many scenes of each difficulty, of each so many frames, from some of which boxes are tracked.
const (
	heldOutScenes  = 24
	heldOutFrames  = 32
	longestTracked = 16
	trackedFrom    = 4 // each so many frames
	firstHeldOut   = 1 << 32
)

// detect returns the boxes in frames, which are as [scenes.Input] writes them.
type detect func(frames [][]float32) ([][]scenes.Box, error)

// count counts the accuracies of all difficulties. Frames come as JPEG files, as a server gets them.
func (q *BoxesQuality) count(ctx context.Context, d detect, progress func(string)) error {
	for _, difficulty := range []float64{scenes.Calm, scenes.Usual, scenes.Hard} {
		r := BoxesDropped{Difficulty: difficulty, Drop: make([]float64, longestTracked), Seen: make([]float64, longestTracked)}
		var accuracies []float64
		tracked := 0.0
		for i := range uint64(heldOutScenes) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			v, err := watch(scenes.New(firstHeldOut+i, difficulty), heldOutFrames, d)
			if err != nil {
				return err
			}
			accuracies = append(accuracies, v.accuracies...)
			for from := 0; from+longestTracked < heldOutFrames; from += trackedFrom {
				v.track(from, r.Drop, r.Seen)
				tracked++
			}
		}
		for k := range r.Drop {
			r.Drop[k] /= tracked
			r.Seen[k] /= tracked
		}
		r.Frames, r.Accuracy = len(accuracies), mean(accuracies)
		r.Lost, r.Found = lineThrough(r.Drop), lineThrough(r.Seen)
		progress(fmt.Sprintf("difficulty %v: accuracy %.3f, drop %.4f per frame", difficulty, r.Accuracy, r.Lost.Rate))
		q.HeldOut = append(q.HeldOut, r)
	}
	return nil
}

// video is a part of a scene and what a detector finds in it.
type video struct {
	frames       []*image.Gray
	exact, found [][]scenes.Box
	accuracies   []float64
}

func watch(s *scenes.Scene, frames int, d detect) (*video, error) {
	v := new(video)
	var inputs [][]float32
	for i := range frames {
		frame, input := scenes.NewFrame(), make([]float32, scenes.Side*scenes.Side)
		s.Draw(frame, i)
		file, err := scenes.Encode(frame)
		if err != nil {
			return nil, err
		}
		sent, err := scenes.Decode(file)
		if err != nil {
			return nil, err
		}
		scenes.Input(input, sent)
		inputs, v.frames, v.exact = append(inputs, input), append(v.frames, frame), append(v.exact, s.Boxes(i))
	}
	var err error
	if v.found, err = d(inputs); err != nil {
		return nil, fmt.Errorf("cannot find boxes: %w", err)
	}
	for i, exact := range v.exact {
		v.accuracies = append(v.accuracies, scenes.Accuracy(v.found[i], exact))
	}
	return v, nil
}

// track tracks the boxes found in a frame, and adds at each stride what they lose and how far they are from those found
// there.
func (v *video) track(from int, drop, seen []float64) {
	boxes := slices.Clone(v.found[from])
	for k := range drop {
		at := from + k + 1
		scenes.Track(v.frames[at-1], v.frames[at], boxes)
		drop[k] += v.accuracies[at] - scenes.Accuracy(boxes, v.exact[at])
		seen[k] += 1 - scenes.Accuracy(boxes, v.found[at])
	}
}

// Lines is the table as text, with the rates that a client estimates after a stride of 8 by what it sees then, and by how
// much more it sees at twice the stride.
func (q *BoxesQuality) Lines() string {
	const stride = 8
	var b strings.Builder
	fmt.Fprintf(&b, "%-10s %7s %9s %31s %31s %9s %10s\n", "difficulty", "frames", "accuracy",
		"drop = start + rate · stride", "seen = start + rate · stride", "seen/8", "16 less 8")
	for _, r := range q.HeldOut {
		fmt.Fprintf(&b, "%-10v %7d %9.3f %11.4f + %.4f ± %.4f %13.4f + %.4f ± %.4f %9.4f %10.4f\n", r.Difficulty, r.Frames, r.Accuracy,
			r.Lost.Start, r.Lost.Rate, r.Lost.Off, r.Found.Start, r.Found.Rate, r.Found.Off,
			offload.Rate(r.Seen[stride-1], stride), offload.Rate(r.Seen[2*stride-1]-r.Seen[stride-1], stride))
	}
	fmt.Fprintf(&b, "counted by %s\n", q.CountedBy)
	return b.String()
}
