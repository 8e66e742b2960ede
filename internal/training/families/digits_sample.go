package families

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strconv"

	data "gearshift/workloads/digits"
)

// labelsFile is the list of a folder of samples.
const labelsFile = "labels.csv"

// Samples are of what was held out, as files that a client sends.
type Samples struct {
	Dir   string
	Count int
	Seed  uint64
	Force bool // write over samples that are there
}

// vacant returns the path of the list of samples, or why it could not be written.
func (s Samples) vacant() (list string, err error) {
	list = filepath.Join(s.Dir, labelsFile)
	if _, err := os.Stat(list); err == nil && !s.Force {
		return "", fmt.Errorf("%s already exists; --force replaces it", list)
	}
	return list, nil
}

// WriteDigits writes a PNG and a WAV of each pair, and which digit it is.
func (s Samples) WriteDigits() error {
	list, err := s.vacant()
	if err != nil {
		return err
	}
	set, err := data.Load()
	if err != nil {
		return err
	}
	split := set.Split(s.Seed)
	if most := split.Images(data.HeldOut); s.Count < 1 || s.Count > most {
		return fmt.Errorf("--sample-count %d: want 1 to %d, as many as are held out", s.Count, most)
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	var labels bytes.Buffer
	w := csv.NewWriter(&labels)
	rows := [][]string{{"label", "image", "audio", "speaker"}}
	e := new(data.Example)
	for i := range s.Count {
		split.Example(e, data.HeldOut, i)
		row := []string{strconv.Itoa(e.Label), fmt.Sprintf("%04d.png", i), fmt.Sprintf("%04d.wav", i), data.Speakers[set.Sounds[e.Sound].Speaker]}
		picture, err := pictureOf(e)
		if err != nil {
			return err
		}
		for k, content := range [][]byte{picture, soundOf(e)} {
			if err := os.WriteFile(filepath.Join(s.Dir, row[1+k]), content, 0o644); err != nil {
				return err
			}
		}
		rows = append(rows, row)
	}
	if err := w.WriteAll(rows); err != nil {
		return err
	}
	return os.WriteFile(list, labels.Bytes(), 0o644) // last, so that a list is of files that are there
}

// pictureOf is the example's image as a PNG.
func pictureOf(e *data.Example) ([]byte, error) {
	picture := image.NewGray(image.Rect(0, 0, data.Side, data.Side))
	copy(picture.Pix, e.Pixels[:])
	var b bytes.Buffer
	err := png.Encode(&b, picture)
	return b.Bytes(), err
}

// soundOf is the example's sound as a WAV of 16 bits.
func soundOf(e *data.Example) []byte {
	const bytesOf = 2
	le := binary.LittleEndian
	size := uint32(bytesOf * len(e.Samples))
	b := le.AppendUint32([]byte("RIFF"), 36+size)
	b = le.AppendUint32(append(b, "WAVEfmt "...), 16)
	for _, v := range []uint16{1, 1} { // PCM, mono
		b = le.AppendUint16(b, v)
	}
	b = le.AppendUint32(le.AppendUint32(b, data.Rate), bytesOf*data.Rate)
	b = le.AppendUint16(le.AppendUint16(b, bytesOf), 8*bytesOf)
	b = le.AppendUint32(append(b, "data"...), size)
	for _, v := range e.Samples {
		b = le.AppendUint16(b, uint16(v))
	}
	return b
}
