package streams

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"net/http"
	"net/url"
	"slices"
	"time"

	"gearshift/router/offload"
	"gearshift/serving/admission/limits"
	"gearshift/serving/jobs"
	"gearshift/serving/openai/inference"
	"gearshift/serving/openai/proxy"
)

// Encoding names a form in which engines get frames.
type Encoding string

// The encodings.
const (
	JPEG  Encoding = "jpeg"  // BYTES of shape [n, 1], as clients send them
	Uint8 Encoding = "uint8" // UINT8 of shape [n, height, width, 3]
	Float Encoding = "float" // FP32 of shape [n, 3, height, width], within the range
)

// Encodings are all of them; the first is the default.
var Encodings = []Encoding{Float, Uint8, JPEG}

// Input is the tensor that engines take frames as.
type Input struct {
	Tensor        string
	Encoding      Encoding
	Width, Height int
	// Range has the numbers of black and of full colour as [Float].
	Range [2]float64
}

// payload is a frame that has arrived.
type payload struct {
	number   int
	captured int64
	jpeg     []byte
	pixels   []byte // RGB; nil where engines get the JPEG
	held     int64  // bytes of the budget
}

// decode checks the frame, so that a bad one is in no batch, and decodes it where engines want pixels.
func (p *payload) decode(in *Input, budget *limits.Answers) error {
	c, err := jpeg.DecodeConfig(bytes.NewReader(p.jpeg))
	switch {
	case err != nil:
		return fmt.Errorf("frame %d is no JPEG: %w", p.number, err)
	case c.Width != in.Width || c.Height != in.Height:
		return fmt.Errorf("frame %d has %d × %d pixels; want %d × %d", p.number, c.Width, c.Height, in.Width, in.Height)
	case !baseline(p.jpeg):
		return fmt.Errorf("frame %d is no baseline JPEG; want one that is not progressive", p.number)
	case in.Encoding == JPEG:
		return nil
	}
	size := int64(3 * c.Width * c.Height)
	if !budget.Take(size) {
		return fmt.Errorf("frame %d: the router has no memory for it", p.number)
	}
	p.held += size
	picture, err := jpeg.Decode(bytes.NewReader(p.jpeg))
	if err != nil {
		return fmt.Errorf("frame %d cannot be decoded: %w", p.number, err)
	}
	p.pixels = pixelsOf(picture, int(size))
	budget.Give(int64(cap(p.jpeg) + headerBytes))
	p.held, p.jpeg = size, nil
	return nil
}

// baseline reports whether a JPEG has its picture in one pass. A progressive one may have thousands, each of a few bytes, and
// take seconds to decode.
func baseline(b []byte) bool {
	const sequential, extended = 0xc0, 0xc1
	for i := 2; i+4 <= len(b) && b[i] == 0xff; i += 2 + int(b[i+2])<<8 + int(b[i+3]) {
		if b[i+1] == sequential || b[i+1] == extended {
			return true
		}
	}
	return false
}

// pixelsOf returns the picture as RGB, row by row.
func pixelsOf(picture image.Image, size int) []byte {
	out := make([]byte, 0, size)
	b := picture.Bounds()
	if gray, ok := picture.(*image.Gray); ok {
		for row := range b.Dy() {
			for _, v := range gray.Pix[row*gray.Stride:][:b.Dx()] {
				out = append(out, v, v, v)
			}
		}
		return out
	}
	y, fast := picture.(*image.YCbCr)
	for row := b.Min.Y; row < b.Max.Y; row++ {
		for column := b.Min.X; column < b.Max.X; column++ {
			if fast {
				c := y.YCbCrAt(column, row)
				r, g, blue := color.YCbCrToRGB(c.Y, c.Cb, c.Cr)
				out = append(out, r, g, blue)
				continue
			}
			r, g, blue, _ := picture.At(column, row).RGBA()
			out = append(out, byte(r>>8), byte(g>>8), byte(blue>>8))
		}
	}
	return out
}

// tensor puts frames into one.
func (in *Input) tensor(frames []*payload) inference.Tensor {
	n, h, w := int64(len(frames)), int64(in.Height), int64(in.Width)
	t := inference.Tensor{Name: in.Tensor, Binary: true}
	switch in.Encoding {
	case JPEG:
		t.Datatype, t.Shape = inference.Strings, []int64{n, 1}
		for _, p := range frames {
			t.Data = binary.LittleEndian.AppendUint32(t.Data, uint32(len(p.jpeg)))
			t.Data = append(t.Data, p.jpeg...)
		}
	case Uint8:
		t.Datatype, t.Shape = "UINT8", []int64{n, h, w, 3}
		for _, p := range frames {
			t.Data = append(t.Data, p.pixels...)
		}
	default:
		t.Datatype, t.Shape = "FP32", []int64{n, 3, h, w}
		t.Data = make([]byte, 0, 4*n*3*h*w)
		floats := in.floats()
		for _, p := range frames {
			for channel := range 3 {
				for i := channel; i < len(p.pixels); i += 3 {
					t.Data = binary.LittleEndian.AppendUint32(t.Data, floats[p.pixels[i]])
				}
			}
		}
	}
	return t
}

// floats returns the bits of each value of a pixel, as a number within the range.
func (in *Input) floats() (list [256]uint32) {
	for i := range list {
		list[i] = math.Float32bits(float32(in.Range[0] + (in.Range[1]-in.Range[0])*float64(i)/255))
	}
	return list
}

// batch is frames that an engine answers together.
type batch struct {
	host   *offload.ScheduledHost
	model  int
	frames []*payload
	rows   []map[string]json.RawMessage // once they are answered
	held   int64                        // of the answer
}

// The bounds of an engine's answer: for the whole, and for each row.
const wholeAnswer, rowAnswer = 64 << 10, 1 << 20

// send has an engine answer the batch, within that time.
func (m *Module) send(b *batch, within time.Duration) (sent jobs.Sent, err error) {
	// A batch is composed once for each attempt; what that takes is gone with it.
	size := int64(4 * 3 * m.Input.Width * m.Input.Height * len(b.frames))
	if m.Input.Encoding != Float {
		size /= 4
	}
	if !m.buffers().Take(size) {
		return sent, proxy.ErrMemory
	}
	defer m.buffers().Give(size)
	q := proxy.Batch{
		Endpoint: proxy.EndpointAt(proxy.InferPath),
		Most:     min(wholeAnswer+int64(len(b.frames))*rowAnswer, m.buffers().Usage().Limit/8),
		Compose: func(model string) (string, http.Header, []byte, error) {
			q, h := inference.Request{Inputs: []inference.Tensor{m.Input.tensor(b.frames)}}, http.Header{}
			body, err := q.Write(h)
			return inference.PathPrefix + url.PathEscape(model) + inference.PathSuffix, h, body, err
		},
		Take: func(h http.Header, body []byte) (err error) {
			if b.rows, err = rowsOf(h, body, len(b.frames)); err == nil {
				b.held = int64(cap(body))
			}
			return err
		},
	}
	replica := b.host.Of.(*host).Sizes[b.model].Replica
	return m.server.Batches().Ask(context.Background(), replica, m.Task, "streams", m.server.Clock()()+within, &q)
}

// rowsOf cuts the outputs of an answer into rows.
func rowsOf(h http.Header, body []byte, n int) ([]map[string]json.RawMessage, error) {
	a, err := inference.ReadAnswer(h, body)
	if err != nil {
		return nil, fmt.Errorf("its answer cannot be read: %w", err)
	}
	if len(a.Outputs) == 0 {
		return nil, errors.New("its answer has no outputs")
	}
	rows := make([]map[string]json.RawMessage, n)
	for i := range a.Outputs {
		out := &a.Outputs[i]
		cut, err := out.Cut()
		switch {
		case err != nil:
		case len(cut) != n:
			err = fmt.Errorf("has %d rows for %d frames", len(cut), n)
		case out.Binary:
			err = errors.New("is binary data, which was not asked for")
		}
		if err != nil {
			return nil, fmt.Errorf("its output %q %w", out.Name, err)
		}
		for k, row := range cut {
			if len(out.Shape) > 1 && !bytes.HasPrefix(row, []byte("[")) {
				row = slices.Concat([]byte("["), row, []byte("]"))
			}
			if rows[k] == nil {
				rows[k] = map[string]json.RawMessage{}
			}
			rows[k][out.Name] = row
		}
	}
	return rows, nil
}
