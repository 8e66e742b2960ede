package scenes

import (
	"image"
	"math"
	"slices"
)

// Viewer is a client that watches a scene, of which it knows the boxes that a server has found in some frames. It tracks
// the newest of them from frame to frame, estimates what that loses by what a client can know, and measures what it
// really loses by the exact boxes. The zero value of what is not exported is a viewer that has seen nothing.
type Viewer struct {
	Scene *Scene
	// Arise has it estimate by the last result alone (ARISE-3), which takes the noise of detections for drop.
	Arise bool
	// From is the first frame that counts.
	From int

	last    *trail   // the result that is shown; nil: there is none
	anchors []*trail // results by which the rate is estimated, see anchored
	next    int      // the first frame that is not counted yet
	seen    seen
	sum     float64 // of the drop within the present second
	n       int     // of its frames

	// Drops are the accuracies lost in whole seconds beyond the reference.
	Drops []float64
	// Loss and Stride are what all frames have lost beyond the reference, and by how much their strides were longer
	// than its: one divided by the other is the true drop rate.
	Loss, Stride float64

	drawn [history]drawn
}

// drawn is a frame that is kept.
type drawn struct {
	number int // and one more
	image  *image.Gray
}

// history counts the frames that a viewer keeps; older ones are drawn again.
const history = 64

// How many frames an estimate of the drop rate reaches back, and how many the rate counts for with which it begins.
const (
	memory = 5 * FPS
	prior  = FPS
)

// Reference is the setup to which an SLA relates, a server of the client's own: the stride of the first frame that a
// result of it would serve, and for how many frames it would (ARISE-4).
type Reference struct{ First, Frames int }

// mean returns the mean stride.
func (r Reference) mean() float64 { return float64(r.First) + float64(r.Frames-1)/2 }

// trail holds the boxes of a result in the frames from its own on.
type trail struct {
	from int
	path [][]Box
	// reference is the accuracy that these boxes have at the strides of the reference.
	reference float64
	stride    float64
}

// frame returns a frame of the scene.
func (v *Viewer) frame(number int) *image.Gray {
	d := &v.drawn[number%history]
	if d.number != number+1 {
		if d.image == nil {
			d.image = NewFrame()
		}
		v.Scene.Draw(d.image, number)
		d.number = number + 1
	}
	return d.image
}

// at returns the boxes of a result in a frame.
func (v *Viewer) at(t *trail, number int) []Box {
	for at := t.from + len(t.path); at <= number; at++ {
		boxes := slices.Clone(t.path[len(t.path)-1])
		Track(v.frame(at-1), v.frame(at), boxes)
		t.path = append(t.path, boxes)
	}
	return t.path[number-t.from]
}

func (v *Viewer) accuracy(t *trail, number int) float64 {
	return Accuracy(v.at(t, number), v.Scene.Boxes(number))
}

// Result takes in the boxes that were found in a frame, which the viewer has from the frame ready on.
func (v *Viewer) Result(found []Box, number, ready int, r Reference) {
	v.Until(ready)
	t := &trail{from: number, path: [][]Box{found}, stride: r.mean()}
	for s := range r.Frames {
		t.reference += v.accuracy(t, number+r.First+s) / float64(r.Frames)
	}
	v.estimate(t)
	v.last, v.next = t, max(v.next, ready)
}

// Until counts what the frames before the given one lose.
func (v *Viewer) Until(number int) {
	if v.last == nil {
		return
	}
	for v.next = max(v.next, v.From); v.next < number; v.next++ {
		loss := v.last.reference - v.accuracy(v.last, v.next)
		v.Loss += loss
		v.Stride += float64(v.next-v.last.from) - v.last.stride
		v.sum += loss
		if v.n++; v.n == FPS {
			v.Drops = append(v.Drops, v.sum/FPS)
			v.sum, v.n = 0, 0
		}
	}
}

// Lose has the viewer have no results any more from a frame on. A second that is not whole does not count.
func (v *Viewer) Lose(number int) {
	v.Until(number)
	v.last, v.anchors, v.sum, v.n = nil, nil, 0, 0
}

// anchored is how far results are apart by which a rate is estimated, in frames. Detections in frames that are closer err
// alike, so that what is tracked for less seems to lose more with each frame than it does.
const anchored = 8

// estimate takes in what a result says of those before it. Two detections of one frame differ, so that a tracked result
// seems to have lost more than it has; an older one seems to have lost as much more, and the difference of the two is
// what was lost in between. What is left to lose gets less, so that the difference is one of logarithms.
func (v *Viewer) estimate(t *trail) {
	like := func(old *trail) float64 { return Accuracy(v.at(old, t.from), t.path[0]) }
	if v.Arise {
		if v.last != nil {
			v.seen.add(t.from-v.last.from, like(v.last), 1)
		}
		return
	}
	n := len(v.anchors)
	if n > 0 && t.from-v.anchors[n-1].from < anchored {
		return
	}
	if n > 1 {
		old, older := v.anchors[n-1], v.anchors[n-2]
		v.seen.add(old.from-older.from, like(older), like(old))
		v.anchors = v.anchors[1:]
	}
	v.anchors = append(v.anchors, t)
}

// seen sums up how much alike tracked boxes and newly found ones are, of which the latest count most: at two strides that differ
// by so many frames.
type seen struct{ n, frames, longer, shorter float64 }

func (s *seen) add(frames int, longer, shorter float64) {
	keep := math.Exp(-float64(frames) / memory)
	s.n, s.frames = keep*s.n+1, keep*s.frames+float64(frames)
	s.longer, s.shorter = keep*s.longer+longer, keep*s.shorter+shorter
}

// Rate returns the estimate of what the viewer loses with each frame, which begins with the given one.
func (v *Viewer) Rate(begin float64) float64 {
	lost := v.seen.shorter - v.seen.longer
	if !v.Arise && lost > 0 {
		lost = v.seen.n * math.Log(v.seen.shorter/max(v.seen.longer, v.seen.shorter/mostRatio))
	}
	return max(0, begin*prior+lost) / (prior + v.seen.frames)
}

// mostRatio bounds by how much the longer stride may lose more.
const mostRatio = 8
