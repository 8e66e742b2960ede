package scenes

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func draw(s *Scene, frame int) *image.Gray {
	f := NewFrame()
	s.Draw(f, frame)
	return f
}

// The same seed and frame give the same pixels and boxes in any order, and another seed others. A scene of half the
// difficulty is in frame 2n where the other is in frame n.
func TestScenesRepeat(t *testing.T) {
	a, b, slow := New(7, Usual), New(7, Usual), New(7, Usual/2.0)
	for _, frame := range []int{500, 3, 100_000, 0} {
		if !bytes.Equal(draw(a, frame).Pix, draw(b, frame).Pix) || !slices.Equal(a.Boxes(frame), b.Boxes(frame)) {
			t.Errorf("frame %d differs", frame)
		}
		if !bytes.Equal(draw(a, frame).Pix, draw(slow, 2*frame).Pix) {
			t.Errorf("frame %d of the slow scene is not %d of the other", 2*frame, frame)
		}
		if bytes.Equal(draw(a, frame).Pix, draw(New(8, Usual), frame).Pix) {
			t.Errorf("two seeds have the same frame %d", frame)
		}
	}
}

// Boxes are the least that hold the pixels of their objects, to a pixel.
func TestBoxesAreWhereThePixelsAre(t *testing.T) {
	plain := func(level byte) *texture { return &texture{256, bytes.Repeat([]byte{level}, 256*256)} }
	for seed := range uint64(30) {
		s := New(seed, Usual)
		s.ground = plain(0)
		all := s.objects
		for i := range all {
			all[i].texture = plain(255)
			s.objects = all[i : i+1]
			for frame := 0; frame < 400; frame += 57 {
				f, got := draw(s, frame), Box{Width, Height, 0, 0}
				for k, level := range f.Pix {
					if x, y := float32(k%Width), float32(k/Width); level > 0 {
						got = Box{min(got.X0, x), min(got.Y0, y), max(got.X1, x+1), max(got.Y1, y+1)}
					}
				}
				want := s.Boxes(frame)[0]
				if want.X0 == 0 || want.Y0 == 0 || want.X1 == Width || want.Y1 == Height {
					continue // the frame cuts the box, not the object
				}
				for _, off := range []float32{got.X0 - want.X0, got.Y0 - want.Y0, want.X1 - got.X1, want.Y1 - got.Y1} {
					if off < -1 || off > 1.5 { // a corner is narrower than a pixel at its tip
						t.Fatalf("seed %d, object %d, frame %d: pixels in %v, box %v", seed, i, frame, got, want)
					}
				}
			}
		}
	}
}

func TestIoU(t *testing.T) {
	for _, c := range []struct {
		a, b Box
		want float64
	}{
		{Box{0, 0, 10, 10}, Box{0, 0, 10, 10}, 1},
		{Box{0, 0, 10, 10}, Box{5, 0, 15, 10}, 1.0 / 3},
		{Box{0, 0, 10, 10}, Box{2, 2, 4, 4}, 0.04},
		{Box{0, 0, 10, 10}, Box{10, 0, 20, 10}, 0},
		{Box{0, 0, 10, 10}, Box{3, 3, 3, 3}, 0},
	} {
		if got := IoU(c.a, c.b); math.Abs(got-c.want) > 1e-6 || got != IoU(c.b, c.a) {
			t.Errorf("IoU of %v and %v is %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// Boxes that are missing and boxes that are too many count as 0.
func TestAccuracy(t *testing.T) {
	a, b, half := Box{0, 0, 10, 10}, Box{50, 50, 60, 60}, Box{0, 0, 10, 5}
	for _, c := range []struct {
		name         string
		found, exact []Box
		want         float64
	}{
		{"none of none", nil, nil, 1},
		{"all, in another order", []Box{b, a}, []Box{a, b}, 1},
		{"one is missing", []Box{a}, []Box{a, b}, 0.5},
		{"one is too many", []Box{a, b}, []Box{a}, 0.5},
		{"all are missing", nil, []Box{a}, 0},
		{"twice the same", []Box{a, a}, []Box{a, b}, 0.5},
		{"the best pair comes first", []Box{half, a}, []Box{a}, 0.5},
		{"half", []Box{half}, []Box{a}, 0.5},
		{"what is outside the frame does not count", []Box{{-10, -10, 10, 10}}, []Box{a}, 1},
	} {
		if got := Accuracy(c.found, c.exact); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A frame comes back from its file nearly as it was, in gray or from a coloured one; others are refused.
func TestFramesAsFiles(t *testing.T) {
	f := draw(New(1, Usual), 40)
	file, err := Encode(f)
	if err != nil || len(file) < 5000 || len(file) > 20_000 {
		t.Fatalf("%d bytes, %v", len(file), err)
	}
	coloured := image.NewRGBA(f.Rect)
	for i, v := range f.Pix {
		coloured.SetRGBA(i%Width, i/Width, color.RGBA{v, v, v, 255})
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, coloured, nil); err != nil {
		t.Fatal(err)
	}
	for _, file := range [][]byte{file, b.Bytes()} {
		got, err := Decode(file)
		if err != nil {
			t.Fatal(err)
		}
		var off float64
		for i, v := range f.Pix {
			off += math.Abs(float64(v)-float64(got.Pix[i/Width*got.Stride+i%Width])) / Width / Height
		}
		if off > 6 {
			t.Errorf("pixels are off by %.1f in the mean", off)
		}
	}
	large := append([]byte(nil), file...)
	at := bytes.Index(large, []byte{0xff, 0xc0}) // the frame header: its height and width follow
	copy(large[at+5:], []byte{0xff, 0xff, 0xff, 0xff})
	for want, file := range map[string][]byte{
		"not a JPEG file":                  []byte("GIF89a"),
		"damaged JPEG file":                file[:len(file)/2],
		"65535×65535 pixels; want 320×180": large,
	} {
		if _, err := Decode(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// What a detector sees has the means of the pixels that it covers.
func TestInput(t *testing.T) {
	f, input := NewFrame(), make([]float32, Side*Side)
	for i := range f.Pix {
		f.Pix[i] = 255
	}
	Input(input, f)
	for i, v := range input {
		if math.Abs(float64(v)-1) > 1e-5 {
			t.Fatalf("white is %v at %d", v, i)
		}
	}
	clear(f.Pix)
	for y := range Height {
		f.Pix[y*Width+2] = 255 // half of it is in the first column, of 2.5 pixels, and half in the second
	}
	Input(input, f)
	for y := range Side {
		for x, want := range []float64{-0.6, -0.6, -1} {
			if got := float64(input[y*Side+x]); math.Abs(got-want) > 1e-5 {
				t.Fatalf("row %d has %v at %d, want %v", y, got, x, want)
			}
		}
	}
}

// Outputs that say what the loss wants have the boxes back, and no loss to speak of.
func TestFoundIsWhatTheLossWants(t *testing.T) {
	for seed := range uint64(20) {
		boxes := New(seed, Usual).Boxes(int(seed) * 31)
		outputs, gradient := make([]float32, Cells*Cells*Values), make([]float32, Cells*Cells*Values)
		for i := range Cells * Cells {
			o := outputs[i*Values:][:Values]
			o[0] = -20
			if b := owner(boxes, i); b != nil {
				x, y := middle(i)
				o[0] = 20
				for k, d := range []float32{x - b.X0, y - b.Y0, b.X1 - x, b.Y1 - y} {
					o[1+k] = float32(math.Log(float64(d / unit)))
				}
			}
		}
		if loss := Loss(boxes, outputs, gradient); loss > 1e-3 {
			t.Errorf("seed %d: the loss is %v", seed, loss)
		}
		apart := true
		for i, b := range boxes {
			for _, other := range boxes[:i] {
				apart = apart && IoU(b, other) < same
			}
		}
		if got := Accuracy(Found(outputs), boxes); apart && got < 0.999 {
			t.Errorf("seed %d: of %v it has %v back", seed, boxes, Found(outputs))
		}
	}
}

// The gradient is that of the loss, by differences.
func TestLossGradient(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	boxes := New(3, Usual).Boxes(9)
	outputs := make([]float32, Cells*Cells*Values)
	for i := range outputs {
		outputs[i] = float32(random.NormFloat64() * 0.5)
	}
	gradient, other := make([]float32, len(outputs)), make([]float32, len(outputs))
	Loss(boxes, outputs, gradient)
	for i, g := range gradient {
		const step = 1e-3
		before := outputs[i]
		outputs[i] = before + step
		up := Loss(boxes, outputs, other)
		outputs[i] = before - step
		down := Loss(boxes, outputs, other)
		outputs[i] = before
		if want := (up - down) / (2 * step); math.Abs(want-float64(g)) > 2e-3*max(1, math.Abs(want)) {
			t.Fatalf("output %d: gradient %v, by differences %v", i, g, want)
		}
	}
}

// shifted is what moves by so many pixels: the frame's texture goes round.
func shifted(f *image.Gray, dx, dy int) *image.Gray {
	to := NewFrame()
	for y := range Height {
		for x := range Width {
			to.Pix[y*Width+x] = f.Pix[(y-dy+Height)%Height*Width+(x-dx+Width)%Width]
		}
	}
	return to
}

// A tracker follows a shift of whole pixels exactly, and stays where nothing moves.
func TestTrackFollowsShifts(t *testing.T) {
	for seed := range uint64(10) {
		s := New(seed, Usual)
		f, boxes := draw(s, 0), s.Boxes(0)
		for _, by := range [][2]int{{0, 0}, {1, 0}, {-2, 3}, {4, -4}, {-3, -1}} {
			got := slices.Clone(boxes)
			Track(f, shifted(f, by[0], by[1]), got)
			for i, b := range boxes {
				dx, dy := float32(by[0]), float32(by[1])
				w, ok := windowOf(b, f.Rect)
				inside := ok && w.x0 > 12 && w.y0 > 12 && w.x1 < Width-12 && w.y1 < Height-12
				if inside && got[i] != (Box{b.X0 + dx, b.Y0 + dy, b.X1 + dx, b.Y1 + dy}) {
					t.Errorf("seed %d: %v moved by %v is tracked to %v", seed, b, by, got[i])
				}
			}
		}
	}
}

// A tracker loses little from frame to frame, and next to nothing in comparison with boxes that stay; more in harder scenes.
// Boxes that are nearly outside, and of no size, are no harm.
func TestTrackFollowsScenes(t *testing.T) {
	lost := func(difficulty float64) (tracked, stays float64) {
		const n, length = 12, 12
		for seed := range uint64(n) {
			s := New(seed, difficulty)
			boxes, before := s.Boxes(0), draw(s, 0)
			for k := 1; k <= length; k++ {
				next := draw(s, k)
				Track(before, next, boxes)
				before = next
			}
			exact := s.Boxes(length)
			tracked += (1 - Accuracy(boxes, exact)) / n
			stays += (1 - Accuracy(s.Boxes(0), exact)) / n
		}
		return tracked, stays
	}
	calm, still := lost(Calm)
	hard, stillHard := lost(Hard)
	t.Logf("after 12 frames: calm %.3f (not tracked %.3f), hard %.3f (%.3f)", calm, still, hard, stillHard)
	if calm > 0.12 || calm > still/2 || hard > stillHard/2 || hard < 1.2*calm {
		t.Errorf("after 12 frames: calm %.3f (not tracked %.3f), hard %.3f (%.3f)", calm, still, hard, stillHard)
	}
	odd := []Box{{-50, -50, 2, 2}, {5, 5, 5, 5}, {319, 179, 400, 300}, {0, 0, Width, Height}, {9, 9, 3, 3}}
	Track(draw(New(1, 1), 0), draw(New(1, 1), 1), odd)
}

func BenchmarkTrack(b *testing.B) {
	s := New(1, Usual)
	before, next, boxes := draw(s, 0), draw(s, 1), s.Boxes(0)
	for b.Loop() {
		Track(before, next, slices.Clone(boxes))
	}
}

func BenchmarkDraw(b *testing.B) {
	s, f := New(1, Usual), NewFrame()
	for i := 0; b.Loop(); i++ {
		s.Draw(f, i)
	}
}

func BenchmarkEncode(b *testing.B) {
	f := draw(New(1, Usual), 0)
	for b.Loop() {
		if _, err := Encode(f); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	file, err := Encode(draw(New(1, Usual), 0))
	if err != nil {
		b.Fatal(err)
	}
	input := make([]float32, Side*Side)
	for b.Loop() {
		f, err := Decode(file)
		if err != nil {
			b.Fatal(err)
		}
		Input(input, f)
	}
}
