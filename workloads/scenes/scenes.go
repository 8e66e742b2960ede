// Package scenes draws videos in which objects move, whose boxes are exactly known, and follows boxes from frame to frame
// by their pixels. They are what streaming clients send, track and are measured by.
package scenes

import (
	"image"
	"math"
	"math/rand/v2"
)

// The size of a frame, and how many a second has.
const (
	Width  = 320
	Height = 180
	FPS    = 60
)

// Calm, Usual and Hard are difficulties: a tracker loses some .006, .008 and .011 of accuracy with each frame.
const (
	Calm  = 0.7
	Usual = 1
	Hard  = 1.4
)

// Scene is a video. A difficulty of 1 is usual; objects move, turn and change their size that many times as fast.
type Scene struct {
	difficulty float64
	ground     *texture
	pan        [2]path
	objects    []object // the last is in front
}

// object is an ellipse or a rectangle with a texture, which moves with it.
type object struct {
	texture *texture
	rim     byte
	round   bool
	x, y    path
	size    wave // half its length
	narrow  float64
	turn    path
}

// wave is a value that swings about its middle; a path is two that are added.
type wave struct{ middle, swing, period, phase float64 }

type path [2]wave

func (w wave) at(t float64) float64 {
	return w.middle + w.swing*math.Sin(2*math.Pi*(t/w.period+w.phase))
}

func (p path) at(t float64) float64 { return p[0].at(t) + p[1].at(t) }

// New draws a scene. The same seed gives the same one, whose objects take the same ways at any difficulty, faster or
// slower.
func New(seed uint64, difficulty float64) *Scene {
	random := rand.New(rand.NewPCG(seed, 0x7363656e6573))
	between := func(low, high float64) float64 { return low + (high-low)*random.Float64() }
	along := func(middle, swing, low, high float64) path {
		return path{
			{middle, swing * between(0.6, 1), between(low, high), random.Float64()},
			{0, swing * between(0.2, 0.5), between(low, high) / 2, random.Float64()},
		}
	}
	s := &Scene{difficulty: difficulty, ground: newGround(random)}
	for i := range s.pan {
		s.pan[i] = along(0, 60, 12, 20)
	}
	const most, least = 4, 2
	n := least + random.IntN(most-least+1)
	for _, i := range random.Perm(n) {
		s.objects = append(s.objects, object{
			texture: newPattern(random),
			rim:     [...]byte{15, 240}[random.IntN(2)],
			round:   random.IntN(2) == 0,
			x:       along(Width*(float64(i)+0.5)/float64(n)+between(-12, 12), 35, 3.5, 6),
			y:       along(Height/2+between(-20, 20), 35, 3.5, 6),
			size:    wave{between(20, 30), between(3, 6), between(3, 6), random.Float64()},
			narrow:  between(0.6, 0.9),
			turn:    along(between(0, math.Pi), 0.7, 4, 8),
		})
	}
	return s
}

// second returns the time of a frame, in the seconds of paths.
func (s *Scene) second(frame int) float64 {
	const usual = 1.9 // so that a tracker loses what [Usual] says
	return float64(frame) / FPS * s.difficulty * usual
}

// pose is where an object is.
type pose struct {
	x, y, a, b, sin, cos float64
}

func (o *object) pose(t float64) (p pose) {
	p.x, p.y, p.a = o.x.at(t), o.y.at(t), o.size.at(t)
	p.b = p.a * o.narrow
	p.sin, p.cos = math.Sincos(o.turn.at(t))
	return p
}

// box returns the least box around the object, of which a part may be outside the frame.
func (o *object) box(p *pose) Box {
	w, h := p.a*math.Abs(p.cos)+p.b*math.Abs(p.sin), p.a*math.Abs(p.sin)+p.b*math.Abs(p.cos)
	if o.round {
		w, h = math.Hypot(p.a*p.cos, p.b*p.sin), math.Hypot(p.a*p.sin, p.b*p.cos)
	}
	return Box{float32(p.x - w), float32(p.y - h), float32(p.x + w), float32(p.y + h)}
}

// Boxes returns the boxes of the objects in a frame, as far as they are within it. An object that another one hides has its box
// too.
func (s *Scene) Boxes(frame int) []Box {
	boxes := make([]Box, len(s.objects))
	for i := range s.objects {
		o := &s.objects[i]
		p := o.pose(s.second(frame))
		boxes[i] = o.box(&p).within()
	}
	return boxes
}

// Draw draws a frame, of any number, into an image of [NewFrame].
func (s *Scene) Draw(to *image.Gray, frame int) {
	t := s.second(frame)
	s.ground.spread(to, int(math.Floor(s.pan[0].at(t))), int(math.Floor(s.pan[1].at(t))))
	for i := range s.objects {
		s.objects[i].draw(to, t)
	}
}

// NewFrame returns an image of a frame's size.
func NewFrame() *image.Gray { return image.NewGray(image.Rect(0, 0, Width, Height)) }

// inside is the square of the part of an object that its rim surrounds.
const inside = 0.85 * 0.85

// draw draws the object: the pixels whose middle is within it.
func (o *object) draw(to *image.Gray, t float64) {
	p := o.pose(t)
	b := o.box(&p).within()
	for y := int(b.Y0); y < int(math.Ceil(float64(b.Y1))); y++ {
		row := to.Pix[y*to.Stride:][:Width]
		for x := int(b.X0); x < int(math.Ceil(float64(b.X1))); x++ {
			dx, dy := float64(x)+0.5-p.x, float64(y)+0.5-p.y
			u, v := (dx*p.cos+dy*p.sin)/p.a, (dy*p.cos-dx*p.sin)/p.b
			out := max(u*u, v*v)
			if o.round {
				out = u*u + v*v
			}
			if out <= inside {
				row[x] = o.texture.at(u, v)
			} else if out <= 1 {
				row[x] = o.rim
			}
		}
	}
}
