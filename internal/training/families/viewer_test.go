package families

import (
	"bytes"
	"image"
	"image/jpeg"
	"math"
	"slices"
	"testing"

	"gearshift/internal/onnxruntime"
	"gearshift/workloads/scenes"
)

// shrunk returns the boxes that are found in frames which their client has scaled, in each of so many.
func shrunk(t *testing.T, d *onnxruntime.Detector, s *scenes.Scene, frames int) (found [][]scenes.Box) {
	t.Helper()
	f := scenes.NewFrame()
	for i := range frames {
		s.Draw(f, i)
		file, err := scenes.Shrunk(f)
		if err != nil {
			t.Fatal(err)
		}
		picture, err := jpeg.Decode(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		input := make([]float32, scenes.Side*scenes.Side)
		for k := range input {
			gray, _, _, _ := picture.At(k%scenes.Side, k/scenes.Side).RGBA()
			input[k] = float32(gray)/0x7fff - 1
		}
		boxes, err := d.Detect([][]float32{input})
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, boxes[0])
	}
	return found
}

// What is found in frames that a client scales, what a viewer estimates and what it measures, by the model in the folder that
// BOXES names: scaling costs no accuracy, and the drop that is measured by the results that come is that which a
// reference of its own detections measures.
func TestViewersOfADetector(t *testing.T) {
	d := measuredDetector(t)
	const count, seconds, late = 12, 6, 5
	reference := scenes.Reference{First: 4, Frames: 1}
	intervals := []int{3, 6, 9, 12, 16, 24}
	sums := make([]struct{ lost, two, one, drop, own, spread, ownSpread float64 }, len(intervals))
	var whole, scaled float64
	for i := range uint64(count) {
		s := scenes.New(firstHeldOut+200+i, []float64{scenes.Calm, scenes.Usual, scenes.Hard}[i%3])
		v, err := watch(s, scenes.FPS, d.Detect)
		if err != nil {
			t.Fatal(err)
		}
		whole += mean(v.accuracies) / count
		found := shrunk(t, d, s, seconds*scenes.FPS)
		for k := range scenes.FPS {
			scaled += scenes.Accuracy(found[k], v.exact[k]) / scenes.FPS / count
		}
		frames := make([]*image.Gray, seconds*scenes.FPS)
		for k := range frames {
			frames[k] = scenes.NewFrame()
			s.Draw(frames[k], k)
		}
		tracked := func(from, at int) float64 {
			boxes := slices.Clone(found[from])
			for k := from; k < at; k++ {
				scenes.Track(frames[k], frames[k+1], boxes)
			}
			return scenes.Accuracy(boxes, s.Boxes(at))
		}
		accuracies := make([]float64, seconds*scenes.FPS)
		for f := range found {
			if at := f + reference.First; at < len(accuracies) {
				accuracies[at] = tracked(f, at)
			}
		}
		for k, interval := range intervals {
			x, one := &scenes.Viewer{Scene: s}, &scenes.Viewer{Scene: s, Arise: true}
			shown := make([]float64, len(accuracies))
			for f := 0; f+late < len(found); f += interval {
				x.Result(found[f], f, f+late, reference)
				one.Result(found[f], f, f+late, reference)
				for at := f + late; at < min(f+late+interval, len(shown)); at++ {
					shown[at] = tracked(f, at)
				}
			}
			r := &sums[k]
			r.lost, r.two, r.one = r.lost+x.Loss/x.Stride/count, r.two+x.Rate(0.0078)/count, r.one+one.Rate(0.0078)/count
			for n, drop := range x.Drops {
				from := late + n*scenes.FPS
				owns := mean(accuracies[from:from+scenes.FPS]) - mean(shown[from:from+scenes.FPS])
				part := 1 / float64(count*len(x.Drops))
				r.drop, r.own = r.drop+drop*part, r.own+owns*part
				r.spread, r.ownSpread = r.spread+drop*drop*part, r.ownSpread+owns*owns*part
			}
		}
	}
	t.Logf("accuracy %.4f of whole frames, %.4f of scaled ones", whole, scaled)
	if math.Abs(whole-scaled) > 0.01 {
		t.Errorf("accuracy %.4f of whole frames, %.4f of scaled ones", whole, scaled)
	}
	for k, r := range sums {
		t.Logf("interval %d: %.4f lost per frame, estimated %.4f, by ARISE %.4f; drop %.4f ± %.4f, beyond detections of the reference's own %.4f ± %.4f",
			intervals[k], r.lost, r.two, r.one, r.drop, math.Sqrt(r.spread-r.drop*r.drop), r.own, math.Sqrt(r.ownSpread-r.own*r.own))
		if math.Abs(r.drop-r.own) > 0.01 {
			t.Errorf("interval %d: drop %.4f, beyond detections of the reference's own %.4f", intervals[k], r.drop, r.own)
		}
	}
}
