package scenes

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
)

// Quality is that of the JPEG files that clients send; a frame is of 10 to 16 KB.
const Quality = 90

// Encode returns a frame as a JPEG file.
func Encode(frame *image.Gray) ([]byte, error) {
	var b bytes.Buffer
	err := jpeg.Encode(&b, frame, &jpeg.Options{Quality: Quality})
	return b.Bytes(), err
}

// Decode reads a frame from a JPEG file, of which it takes the brightness. One of another size is refused before its pixels
// are read.
func Decode(file []byte) (*image.Gray, error) {
	config, err := jpeg.DecodeConfig(bytes.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("the frame is not a JPEG file: %w", err)
	}
	if config.Width != Width || config.Height != Height {
		return nil, fmt.Errorf("the frame is of %d×%d pixels; want %d×%d", config.Width, config.Height, Width, Height)
	}
	picture, err := jpeg.Decode(bytes.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("the frame is a damaged JPEG file: %w", err)
	}
	switch p := picture.(type) {
	case *image.Gray:
		return p, nil
	case *image.YCbCr:
		return &image.Gray{Pix: p.Y, Stride: p.YStride, Rect: p.Rect}, nil
	}
	return nil, fmt.Errorf("the frame has the colours of %T; want gray or YCbCr", picture)
}

// Shrunk returns a frame as a detector sees it, as a JPEG file: what a client sends that scales its frames itself.
func Shrunk(frame *image.Gray) ([]byte, error) {
	var input [Side * Side]float32
	Input(input[:], frame)
	small := image.NewGray(image.Rect(0, 0, Side, Side))
	for i, v := range input {
		small.Pix[i] = byte((v+1)*127.5 + 0.5)
	}
	return Encode(small)
}

// share is a pixel's part in the mean that makes up a pixel of a smaller picture.
type share struct {
	from   int
	weight [4]float32
}

var across, down = shares(Width), shares(Height)

// shares returns of each of [Side] pixels those of so many that it covers.
func shares(pixels int) (list [Side]share) {
	each := float64(pixels) / Side
	for i := range list {
		low, high := float64(i)*each, float64(i+1)*each
		s := share{from: min(int(low), pixels-len(share{}.weight))}
		for k := range s.weight {
			p := float64(s.from + k)
			s.weight[k] = float32(max(0, min(high, p+1)-max(low, p)) / each)
		}
		list[i] = s
	}
	return list
}

// Input writes what a detector sees of a frame: each pixel the mean of those that it covers, from −1 to 1.
func Input(to []float32, frame *image.Gray) {
	var lines [Height][Side]float32
	for y := range lines {
		row := frame.Pix[y*frame.Stride:][:Width]
		for x := range across {
			s := &across[x]
			p := row[s.from:][:4]
			lines[y][x] = float32(p[0])*s.weight[0] + float32(p[1])*s.weight[1] + float32(p[2])*s.weight[2] + float32(p[3])*s.weight[3]
		}
	}
	for y := range down {
		s := &down[y]
		a, b, c, d := &lines[s.from], &lines[s.from+1], &lines[s.from+2], &lines[s.from+3]
		out := to[y*Side:][:Side]
		for x := range out {
			out[x] = (a[x]*s.weight[0]+b[x]*s.weight[1]+c[x]*s.weight[2]+d[x]*s.weight[3])/127.5 - 1
		}
	}
}
