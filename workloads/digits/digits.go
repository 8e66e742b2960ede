// Package digits is a task with two modalities: handwritten and spoken digits, packed
// into the program, in pairs of an image and a sound of the same digit. Both have noise,
// drawn from a seed, so that neither alone says enough. README.md says where they come
// from, and what was changed.
package digits

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The shape of what is packed.
const (
	Labels  = 10
	Side    = 28   // pixels of an image, each way
	Rate    = 8000 // samples of a second
	Samples = 8000 // the most that a recording has
)

// Speakers are those of the recordings, which name them by their number.
var Speakers = [...]string{"george", "jackson", "lucas", "nicolas", "theo", "yweweler"}

// Image is a handwritten digit, in rows of gray from 0, black.
type Image struct {
	Label  int
	Pixels [Side * Side]byte
}

// Sound is a spoken digit.
type Sound struct {
	Label, Speaker int
	Index          int // among the recordings of the speaker and the digit
	Samples        []int16
}

// Set is all of them. It is read-only.
type Set struct {
	Images []Image
	Sounds []Sound
}

// errDamaged is of data that is not as the packing program writes it.
var errDamaged = errors.New("the packed digits are damaged")

// Load unpacks the digits. A build with tag serveonly has none.
func Load() (*Set, error) {
	if len(packedImages) == 0 {
		return nil, errors.New("this build has no digits: it only serves; build without the tag serveonly")
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(packedImages))
	var pixels []byte
	if err == nil {
		pixels, err = io.ReadAll(unzipped)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	var s Set
	if s.Images, err = readImages(pixels); err == nil {
		s.Sounds, err = readSounds(packedSounds)
	}
	return &s, err
}

// readImages reads images, each a byte for its label and one for each pixel.
func readImages(data []byte) ([]Image, error) {
	const size = 1 + Side*Side
	images := make([]Image, len(data)/size)
	for i := range images {
		row := data[i*size:]
		images[i].Label = int(row[0])
		copy(images[i].Pixels[:], row[1:size])
		if images[i].Label >= Labels {
			return nil, errDamaged
		}
	}
	if len(data)%size != 0 {
		return nil, errDamaged
	}
	return images, nil
}

// soundHeader is a byte each for label, speaker and index, and two for the samples.
const soundHeader = 5

func readSounds(data []byte) (sounds []Sound, err error) {
	for len(data) > 0 {
		if len(data) < soundHeader {
			return nil, errDamaged
		}
		n := int(binary.LittleEndian.Uint16(data[3:]))
		size := soundHeader + (n+1)/2
		s := Sound{Label: int(data[0]), Speaker: int(data[1]), Index: int(data[2])}
		if len(data) < size || n > Samples || s.Label >= Labels || s.Speaker >= len(Speakers) {
			return nil, errDamaged
		}
		s.Samples = Expand(data[soundHeader:size], n)
		sounds = append(sounds, s)
		data = data[size:]
	}
	return sounds, nil
}
