package models

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/dsp/fourier"
)

// Patches are overlapping squares of a gray image, from which its encoder begins. The
// means over squares of Pool × Pool patches are what the layers after it see.
type Patches struct{ Side, Size, Step, Pool int }

// across is how many patches there are each way.
func (p Patches) across() int { return (p.Side-p.Size)/p.Step + 1 }

// Inputs is how many pixels a patch has.
func (p Patches) Inputs() int { return p.Size * p.Size }

// Groups is the group of each patch, row by row.
func (p Patches) Groups() (groups []int) {
	for y := range p.across() {
		for x := range p.across() {
			groups = append(groups, y/p.Pool*(p.across()/p.Pool)+x/p.Pool)
		}
	}
	return groups
}

// Features writes the patches of an image, one after the other.
func (p Patches) Features(dst, gray []float32) {
	for y := range p.across() {
		for x := range p.across() {
			for row := range p.Size {
				dst = dst[copy(dst, gray[(y*p.Step+row)*p.Side+x*p.Step:][:p.Size]):]
			}
		}
	}
}

// Spectrogram is the logarithm of a sound's power in bands of frequency, frame by frame.
// Its encoder begins from windows of Width frames, Step apart; the means over Pool
// windows are what the layers after it see.
type Spectrogram struct {
	Rate, Samples     int
	Window, Hop       int // samples of a frame, and between frames
	Bands             int
	Width, Step, Pool int
	// Shift is taken from each band, which then is multiplied by Scale.
	Shift, Scale []float32
}

// floor is added to the power, of which there may be none.
const floor = 1e-3

func (s *Spectrogram) frames() int { return (s.Samples-s.Window)/s.Hop + 1 }

// bins is how many frequencies a frame is taken apart into; the constant part is left
// out.
func (s *Spectrogram) bins() int { return s.Window / 2 }

func (s *Spectrogram) windows() int { return (s.frames()-s.Width)/s.Step + 1 }

// Inputs is how many numbers a window has: its frames, for each band.
func (s *Spectrogram) Inputs() int { return s.Bands * s.Width }

// Groups is the group of each window.
func (s *Spectrogram) Groups() (groups []int) {
	for w := range s.windows() {
		groups = append(groups, w/s.Pool)
	}
	return groups
}

// weight is that of a frame's sample, a raised cosine.
func (s *Spectrogram) weight(sample int) float64 {
	return 0.5 - 0.5*math.Cos(2*math.Pi*float64(sample)/float64(s.Window))
}

// filters are how much of each frequency is in each band, of shape (bands, bins):
// triangles of the same width on the mel scale.
func (s *Spectrogram) filters() []float32 {
	mel := func(hertz float64) float64 { return 1127 * math.Log1p(hertz/700) }
	step := mel(float64(s.Rate)/2) / float64(s.Bands+1)
	out := make([]float32, s.Bands*s.bins())
	for b := range s.Bands {
		sum := 0.0
		row := out[b*s.bins() : (b+1)*s.bins()]
		for k := range row {
			at := mel(float64((k+1)*s.Rate)/float64(s.Window))/step - float64(b+1)
			part := max(0, 1-math.Abs(at))
			row[k] = float32(part)
			sum += part
		}
		for k := range row {
			row[k] /= float32(max(1e-9, sum))
		}
	}
	return out
}

// Analysis computes a spectrogram's features. It keeps memory, and is for one goroutine.
type Analysis struct {
	*Spectrogram
	filter  []band
	weights []float64 // of a frame's samples
	fft     *fourier.FFT
	frame   []float64
	bins    []complex128
	power   []float64
	bands   []float32 // (bands, frames)
}

// band is a filter without its zeros.
type band struct {
	first int // bin
	parts []float32
}

// Analysis makes one.
func (s *Spectrogram) Analysis() *Analysis {
	var filter []band
	for row := range slices.Chunk(s.filters(), s.bins()) {
		first := max(0, slices.IndexFunc(row, func(v float32) bool { return v > 0 }))
		last := first
		for k, v := range row {
			if v > 0 {
				last = k
			}
		}
		filter = append(filter, band{first, row[first : last+1]})
	}
	weights := make([]float64, s.Window)
	for i := range weights {
		weights[i] = s.weight(i)
	}
	return &Analysis{
		Spectrogram: s, filter: filter, weights: weights, fft: fourier.NewFFT(s.Window), frame: make([]float64, s.Window),
		bins: make([]complex128, s.Window/2+1), power: make([]float64, s.Window/2), bands: make([]float32, s.Bands*s.frames()),
	}
}

// Levels are the logarithms of the power, of shape (bands, frames). The next call
// overwrites them.
func (a *Analysis) Levels(sound []float32) []float32 {
	for f := range a.frames() {
		for i := range a.frame {
			a.frame[i] = float64(sound[f*a.Hop+i]) * a.weights[i]
		}
		a.fft.Coefficients(a.bins, a.frame)
		for k := range a.power {
			re, im := real(a.bins[k+1]), imag(a.bins[k+1])
			a.power[k] = re*re + im*im
		}
		for b, filter := range a.filter {
			sum := 0.0
			for k, part := range filter.parts {
				sum += float64(part) * a.power[filter.first+k]
			}
			a.bands[b*a.frames()+f] = float32(math.Log(sum + floor))
		}
	}
	return a.bands
}

// Features writes the windows of a sound, one after the other, each band by band.
func (a *Analysis) Features(dst, sound []float32) {
	levels := a.Levels(sound)
	for w := range a.windows() {
		for b := range a.Bands {
			for _, v := range levels[b*a.frames()+w*a.Step:][:a.Width] {
				dst[0] = (v - a.Shift[b]) * a.Scale[b]
				dst = dst[1:]
			}
		}
	}
}
