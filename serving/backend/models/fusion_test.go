package models

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gearshift/checkpoints/onnxfile"
)

// sound is a small spectrogram.
func sound() *Spectrogram {
	return &Spectrogram{
		Rate: 8000, Samples: 400, Window: 64, Hop: 20, Bands: 5, Width: 3, Step: 2, Pool: 2,
		Shift: []float32{1, 2, 3, 4, 5}, Scale: []float32{1, 1, 2, 1, 0.5},
	}
}

// The features of a sound are those of a Fourier transform by loops.
func TestSpectrogram(t *testing.T) {
	s := sound()
	random := rand.New(rand.NewPCG(1, 1))
	wave := make([]float32, s.Samples)
	for i := range wave {
		wave[i] = float32(math.Sin(float64(i)) + random.NormFloat64()/10)
	}
	windows := len(s.Groups())
	if s.frames() != 17 || windows != 8 || s.Inputs() != 15 || s.Groups()[7] != 3 {
		t.Errorf("%d frames, %d windows in groups %v, of %d inputs", s.frames(), windows, s.Groups(), s.Inputs())
	}
	got := make([]float32, windows*s.Inputs())
	s.Analysis().Features(got, wave)
	filters := s.filters()
	for w := range windows {
		for b := range s.Bands {
			for f := range s.Width {
				frame, power := w*s.Step+f, 0.0
				for k := range s.bins() {
					var re, im float64
					for i := range s.Window {
						sin, cos := math.Sincos(2 * math.Pi * float64((k+1)*i) / float64(s.Window))
						v := float64(wave[frame*s.Hop+i]) * s.weight(i)
						re, im = re+v*cos, im+v*sin
					}
					power += float64(filters[b*s.bins()+k]) * (re*re + im*im)
				}
				want := (math.Log(power+floor) - float64(s.Shift[b])) * float64(s.Scale[b])
				if at := (w*s.Bands+b)*s.Width + f; math.Abs(float64(got[at])-want) > 1e-4 {
					t.Fatalf("window %d, band %d, frame %d: %v, want %v", w, b, f, got[at], want)
				}
			}
		}
	}
}

// Each band has frequencies of its own, and all of them together cover all bands.
func TestBandsHaveFrequencies(t *testing.T) {
	s := &Spectrogram{Rate: 8000, Window: 256, Bands: 32}
	for b := range s.Bands {
		row := s.filters()[b*s.bins() : (b+1)*s.bins()]
		var sum float64
		for _, v := range row {
			sum += float64(v)
		}
		if math.Abs(sum-1) > 1e-5 {
			t.Errorf("the filters of band %d add up to %v", b, sum)
		}
	}
}

// Patches are squares of the image, row by row.
func TestPatches(t *testing.T) {
	p := Patches{Side: 7, Size: 3, Step: 2, Pool: 1}
	gray := make([]float32, 49)
	for i := range gray {
		gray[i] = float32(i)
	}
	got := make([]float32, len(p.Groups())*p.Inputs())
	p.Features(got, gray)
	if want := []float32{16, 17, 18, 23, 24, 25, 30, 31, 32}; len(p.Groups()) != 9 || !slices.Equal(got[4*9:5*9], want) {
		t.Errorf("%d patches, the middle one is %v, want %v", len(p.Groups()), got[4*9:5*9], want)
	}
	if got := (Patches{Side: 28, Size: 7, Step: 3, Pool: 2}).Groups(); len(got) != 64 || got[0] != got[9] || got[0] == got[2] || got[63] != 15 {
		t.Errorf("groups %v", got)
	}
}

// A model of images and sound has their inputs and no others, and one that lacks one of
// them does not have its input.
func TestFusionInputs(t *testing.T) {
	layer := func(in, out int) Dense { return Dense{make([]float32, in*out), make([]float32, out)} }
	f := &Fusion{
		Labels: []string{"a", "b"},
		Image:  &ImageEncoder{Patches{7, 3, 2, 1}, Layers{[]Dense{layer(9, 4)}, []Dense{layer(36, 2)}}},
		Audio:  &SoundEncoder{sound(), Layers{[]Dense{layer(15, 4)}, []Dense{layer(16, 2)}}},
	}
	if want := (9*4 + 4) + (36*2 + 2) + (15*4 + 4) + (16*2 + 2); f.Parameters() != want {
		t.Errorf("%d parameters, want %d", f.Parameters(), want)
	}
	if !bytes.Equal(f.ONNX(), f.ONNX()) {
		t.Error("the same model has two files")
	}
	for _, c := range []struct {
		lack func()
		want []string
	}{
		{func() {}, []string{ModalityMask, PixelValues, InputValues}},
		{func() { f.Image = nil }, []string{ModalityMask, InputValues}},
	} {
		c.lack()
		inputs, outputs, err := onnxfile.Signature(f.ONNX())
		var names []string
		for _, i := range inputs {
			names = append(names, i.Name)
		}
		if err != nil || !slices.Equal(names, c.want) || len(outputs) != 1 || outputs[0].Dims[1] != 2 {
			t.Errorf("inputs %v, outputs %v, %v; want %v", names, outputs, err, c.want)
		}
	}
	if config := string(f.Files()["config.json"]); bytes.Contains([]byte(config), []byte("image_size")) || bytes.Contains([]byte(config), []byte("vocab_size")) {
		t.Errorf("config.json is %s", config)
	}
}
