package classifier

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg" // a form that images come in
	_ "image/png"  // another
	"io"
	"runtime"
	"strings"
)

// maxSide bounds images: a small file can announce a huge one.
const maxSide = 4096

// decoding bounds the images that are decoded at once: each may take a hundred
// megabytes and more meanwhile.
var decoding = make(chan struct{}, runtime.GOMAXPROCS(0))

// readImage is the image at the model's size, each pixel the nearest one's.
func readImage(data []byte, side int) ([]float32, error) {
	config, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, ended(err)
	}
	if config.Width < 1 || config.Height < 1 || config.Width > maxSide || config.Height > maxSide {
		return nil, fmt.Errorf("it is of %d×%d pixels; want 1 to %d each way", config.Width, config.Height, maxSide)
	}
	decoding <- struct{}{}
	defer func() { <-decoding }()
	picture, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, ended(err)
	}
	b := picture.Bounds()
	out := make([]float32, 3*side*side)
	for y := range side {
		for x := range side {
			red, green, blue, _ := picture.At(b.Min.X+x*b.Dx()/side, b.Min.Y+y*b.Dy()/side).RGBA()
			for c, v := range []uint32{red, green, blue} {
				out[(c*side+y)*side+x] = float32(v)/0x7fff - 1
			}
		}
	}
	return out, nil
}

// ended says what is wrong with a file that ends too early.
func ended(err error) error {
	text := err.Error() // image/png does not wrap
	if errors.Is(err, io.EOF) || strings.HasSuffix(text, io.ErrUnexpectedEOF.Error()) || strings.HasSuffix(text, "not enough pixel data") {
		return errors.New("it is truncated: the file ends within the image")
	}
	return err
}

// unknownSize is what programs write that do not know a chunk's size beforehand.
const unknownSize = 1<<32 - 1

// readWAV is the first samples of the sound at the rate, the mean of its
// channels, each sample the nearest one's; silence follows what is shorter.
func readWAV(data []byte, rate, samples int) ([]float32, error) {
	if len(data) < 12 || string(data[:4]) != "RIFF" || string(data[8:12]) != "WAVE" {
		return nil, errors.New("it is no RIFF WAVE file")
	}
	var format, pcm []byte
	for rest := data[12:]; len(rest) >= 8; {
		size := uint64(binary.LittleEndian.Uint32(rest[4:]))
		name, chunk := string(rest[:4]), rest[8:]
		if size > uint64(len(chunk)) && size != unknownSize {
			return nil, fmt.Errorf("it is truncated: of the %d bytes of its part %q there are %d", size, name, len(chunk))
		}
		chunk = chunk[:min(uint64(len(chunk)), size)]
		switch name {
		case "fmt ":
			format = chunk
		case "data":
			pcm = chunk
		}
		rest = rest[min(uint64(len(rest)), 8+size+size%2):]
	}
	if len(format) < 16 || binary.LittleEndian.Uint16(format) != 1 || binary.LittleEndian.Uint16(format[14:]) != 16 {
		return nil, errors.New("its format is another")
	}
	channels, given := int(binary.LittleEndian.Uint16(format[2:])), int(binary.LittleEndian.Uint32(format[4:]))
	if channels < 1 || given < 1 || len(pcm) < 2*channels {
		return nil, errors.New("it holds no sound")
	}
	out := make([]float32, samples)
	for i := range out {
		at := i * given / rate * channels * 2
		if at+2*channels > len(pcm) {
			break
		}
		for c := range channels {
			out[i] += float32(int16(binary.LittleEndian.Uint16(pcm[at+2*c:]))) / 0x8000 / float32(channels)
		}
	}
	return out, nil
}
