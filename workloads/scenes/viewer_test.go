package scenes

import (
	"math"
	"math/rand/v2"
	"testing"
)

// noisy returns the boxes of a frame as a detector finds them that errs by so many pixels, drawn for each frame.
func noisy(s *Scene, frame int, pixels float32, random *rand.Rand) []Box {
	boxes := s.Boxes(frame)
	for i := range boxes {
		off := func() float32 { return pixels * float32(random.NormFloat64()) }
		b := &boxes[i]
		b.X0, b.Y0, b.X1, b.Y1 = b.X0+off(), b.Y0+off(), b.X1+off(), b.Y1+off()
	}
	return boxes
}

// watched returns a viewer that has seen so many seconds with a result of each interval-th frame, late by so many.
func watched(s *Scene, interval, late, seconds int, pixels float32, arise bool, r Reference) *Viewer {
	v, random := &Viewer{Scene: s, Arise: arise}, rand.New(rand.NewPCG(1, 2))
	for f := 0; f < seconds*FPS; f += interval {
		v.Result(noisy(s, f, pixels, random), f, f+late, r)
	}
	return v
}

// What is lost in a second is what its strides are longer than the reference's, and nothing with those of the reference.
func TestViewerMeasuresDrops(t *testing.T) {
	for seed := range uint64(4) {
		s := New(seed, Usual)
		same := watched(s, 2, 3, 4, 0, false, Reference{3, 2})
		if len(same.Drops) != 3 {
			t.Fatalf("%d whole seconds of 4 less the way to the first result; want 3", len(same.Drops))
		}
		for _, d := range same.Drops {
			if math.Abs(d) > 0.002 {
				t.Errorf("seed %d: drop %.4f with the strides of the reference", seed, d)
			}
		}
		short, long := watched(s, 4, 3, 8, 0, false, Reference{3, 1}), watched(s, 16, 3, 8, 0, false, Reference{3, 1})
		if per := long.Loss / long.Stride; per < 0.002 || per > 0.03 {
			t.Errorf("seed %d: %.4f lost with each frame", seed, per)
		}
		if a, b := mean(short.Drops), mean(long.Drops); a <= 0 || b < 2*a {
			t.Errorf("seed %d: drop %.4f by intervals of 4, %.4f by 16", seed, a, b)
		}
	}
}

func mean(list []float64) (sum float64) {
	for _, x := range list {
		sum += x / float64(len(list))
	}
	return sum
}

// What is not served counts neither as served nor for the second that it interrupts, and what is before the first frame
// that counts does not at all.
func TestViewerLosesItsPlace(t *testing.T) {
	s := New(3, Usual)
	v := &Viewer{Scene: s, From: 30}
	v.Result(s.Boxes(0), 0, 3, Reference{3, 1})
	v.Lose(80) // 50 frames that count
	v.Until(500)
	v.Result(s.Boxes(500), 500, 503, Reference{3, 1})
	v.Until(503 + 2*FPS)
	if len(v.Drops) != 2 {
		t.Errorf("%d whole seconds; want 2", len(v.Drops))
	}
}

// Noise of detections is no drop for a viewer that compares two results, and is one for that of ARISE.
func TestViewerEstimates(t *testing.T) {
	var ours, theirs, truth float64
	const n = 12
	for seed := range uint64(n) {
		s := New(seed, Usual)
		v, a := watched(s, 6, 4, 10, 1.5, false, Reference{4, 1}), watched(s, 6, 4, 10, 1.5, true, Reference{4, 1})
		ours, theirs, truth = ours+v.Rate(0.006)/n, theirs+a.Rate(0.006)/n, truth+v.Loss/v.Stride/n
	}
	t.Logf("lost with each frame: %.4f, estimated %.4f, by ARISE %.4f", truth, ours, theirs)
	if ours < 0.7*truth || ours > 1.5*truth || theirs < 1.7*truth {
		t.Errorf("lost with each frame: %.4f, estimated %.4f, by ARISE %.4f", truth, ours, theirs)
	}
}
