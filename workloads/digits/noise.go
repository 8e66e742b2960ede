package digits

import (
	"math"
	"math/rand/v2"
)

// The noise was chosen on the validation part, so that image, sound and both are well
// apart in accuracy.
const (
	dark     = 96.0 // gray of the background
	contrast = 64.0 // what ink adds to it
	grain    = 72.0 // deviation of the noise of a pixel

	loudness = 3000.0 // root mean square of the samples
	hiss     = 1.2    // deviation of the noise, as a multiple of the recording's root mean square
)

// spoil writes the image at low contrast, with noise on each pixel.
func spoil(pixels *[Side * Side]byte, i *Image, random *rand.Rand) {
	for k, ink := range i.Pixels {
		v := dark + contrast*float64(ink)/255 + grain*random.NormFloat64()
		pixels[k] = byte(math.Round(max(0, min(255, v))))
	}
}

// disturb writes a second of white noise, with the recording somewhere in it.
func disturb(samples *[Samples]int16, recording []int16, random *rand.Rand) {
	var power float64
	for _, s := range recording {
		power += float64(s) * float64(s)
	}
	root := max(1, math.Sqrt(power/float64(len(recording))))
	scale := loudness / (root * math.Sqrt(1+hiss*hiss))
	at := random.IntN(len(samples) - len(recording) + 1)
	for i := range samples {
		v := hiss * root * random.NormFloat64()
		if k := i - at; k >= 0 && k < len(recording) {
			v += float64(recording[k])
		}
		samples[i] = int16(math.Round(max(-0x8000, min(0x7fff, v*scale))))
	}
}
