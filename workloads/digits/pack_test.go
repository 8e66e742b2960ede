package digits

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	imagesFrom     = flag.String("images", "", "the folder of the JSON files of images, to write data again")
	recordingsFrom = flag.String("recordings", "", "the folder of the recordings, to write data again")
)

// TestPack writes data again where flags say from what, as scripts/digits.sh does.
func TestPack(t *testing.T) {
	if *imagesFrom == "" && *recordingsFrom == "" {
		t.Skip("no -images and -recordings")
	}
	var s Set
	for label := range Labels {
		if err := addImages(&s, *imagesFrom, label); err != nil {
			t.Fatal(err)
		}
	}
	for label := range Labels {
		for speaker, name := range Speakers {
			if err := addSounds(&s, *recordingsFrom, label, speaker, name); err != nil {
				t.Fatal(err)
			}
		}
	}
	images, err := packImages(&s)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"images.bin.gz": images, "sounds.bin": packSounds(&s)} {
		if err := os.WriteFile(filepath.Join("data", name), data, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes", name, len(data))
	}
}

// packImages is the file of images that Load reads.
func packImages(s *Set) ([]byte, error) {
	var zipped bytes.Buffer
	w, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	for _, i := range s.Images {
		if _, err := w.Write(append([]byte{byte(i.Label)}, i.Pixels[:]...)); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return zipped.Bytes(), err
}

// packSounds is the file of sounds that Load reads.
func packSounds(s *Set) (data []byte) {
	for _, r := range s.Sounds {
		data = append(data, byte(r.Label), byte(r.Speaker), byte(r.Index))
		data = binary.LittleEndian.AppendUint16(data, uint16(len(r.Samples)))
		data = append(data, compress(r.Samples)...)
	}
	return data
}

// code is the one whose sample is next to the given one.
func (a *adpcm) code(sample int16) (code byte) {
	rest := int(sample) - a.sample
	if rest < 0 {
		code, rest = 8, -rest
	}
	size := adpcmSteps[a.step]
	for bit := 2; bit >= 0; bit-- {
		if rest >= size {
			code |= 1 << bit
			rest -= size
		}
		size >>= 1
	}
	return code
}

// compress codes samples by four bits each.
func compress(samples []int16) []byte {
	var a adpcm
	codes := make([]byte, (len(samples)+1)/2)
	for i, s := range samples {
		c := a.code(s)
		a.next(c)
		codes[i/2] |= c << (4 * (i % 2))
	}
	return codes
}

// addImages reads a digit's file: gray from 0 to 1, one image after the other.
func addImages(s *Set, dir string, label int) error {
	path := filepath.Join(dir, fmt.Sprintf("%d.json", label))
	data, err := os.ReadFile(path)
	var file struct{ Data []float64 }
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	if err != nil {
		return err
	}
	for pixels := range slices.Chunk(file.Data, Side*Side) {
		image := Image{Label: label}
		if len(pixels) != len(image.Pixels) {
			return fmt.Errorf("%s ends within an image", path)
		}
		for i, v := range pixels {
			image.Pixels[i] = byte(math.Round(255 * v))
		}
		s.Images = append(s.Images, image)
	}
	return nil
}

// addSounds reads the recordings of a digit by a speaker, cut where they are longer than
// a second.
func addSounds(s *Set, dir string, label, speaker int, name string) error {
	for i := 0; ; i++ {
		path := filepath.Join(dir, fmt.Sprintf("%d_%s_%d.wav", label, name, i))
		data, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) && i > 0 {
			return nil
		}
		if err != nil {
			return err
		}
		samples, err := readWAV(data)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		s.Sounds = append(s.Sounds, Sound{Label: label, Speaker: speaker, Index: i, Samples: samples})
	}
}

// readWAV reads a file whose header is of 44 bytes.
func readWAV(data []byte) (samples []int16, err error) {
	if len(data) < 44 || string(data[:4]) != "RIFF" || string(data[8:16]) != "WAVEfmt " {
		return nil, errors.New("it is no WAV file")
	}
	at := strings.Index(string(data), "data") + 8
	le := binary.LittleEndian
	if at < 44 || le.Uint16(data[20:]) != 1 || le.Uint16(data[22:]) != 1 || le.Uint32(data[24:]) != Rate || le.Uint16(data[34:]) != 16 {
		return nil, errors.New("it is not of 16 bits, mono, at 8 kHz")
	}
	size := min(int(le.Uint32(data[at-4:])), len(data)-at, 2*Samples)
	for i := 0; i+1 < size; i += 2 {
		samples = append(samples, int16(le.Uint16(data[at+i:])))
	}
	return samples, nil
}
