package digits

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

func load(t testing.TB) *Set {
	t.Helper()
	s, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// README.md says how many digits there are of each label, and the hash of all of them.
func TestPackedDigitsAreThoseOfTheReadme(t *testing.T) {
	s := load(t)
	var images, sounds [Labels]int
	speakers := map[int]int{}
	hash := sha256.New()
	for i := range s.Images {
		images[s.Images[i].Label]++
		hash.Write([]byte{byte(s.Images[i].Label)})
		hash.Write(s.Images[i].Pixels[:])
	}
	for _, r := range s.Sounds {
		sounds[r.Label]++
		speakers[r.Speaker]++
		hash.Write([]byte{byte(r.Label), byte(r.Speaker), byte(r.Index)})
		if err := binary.Write(hash, binary.LittleEndian, r.Samples); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{hex.EncodeToString(hash.Sum(nil)), fmt.Sprintf("%d images and %d recordings", len(s.Images), len(s.Sounds))}
	for label := range Labels {
		want = append(want, fmt.Sprintf("| %d | %d | %d |", label, images[label], sounds[label]))
	}
	for _, line := range want {
		if !strings.Contains(string(text), line) {
			t.Errorf("README.md does not say %q", line)
		}
	}
	for speaker, name := range Speakers {
		if speakers[speaker] != 500 || !strings.Contains(string(text), name) {
			t.Errorf("%s: %d recordings, or README.md does not name the speaker", name, speakers[speaker])
		}
	}
	if size := len(packedImages) + len(packedSounds); size > 8_000_000 {
		t.Errorf("%d bytes are packed; want at most 8 million", size)
	}
}

// What is packed again is of the same recordings, as long as before.
func TestPackAgain(t *testing.T) {
	s := load(t)
	again, err := readSounds(packSounds(s))
	if err != nil || len(again) != len(s.Sounds) {
		t.Fatalf("%d sounds, %v", len(again), err)
	}
	for i, r := range again {
		if o := s.Sounds[i]; len(r.Samples) != len(o.Samples) || r.Label != o.Label || r.Speaker != o.Speaker || r.Index != o.Index {
			t.Fatalf("sound %d is %d samples of %d", i, len(r.Samples), r.Label)
		}
	}
	few := &Set{Images: s.Images[:5]}
	packed, err := packImages(few)
	if err != nil {
		t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(unzipped)
	if images, err2 := readImages(data); err != nil || err2 != nil || !slices.Equal(images, few.Images) {
		t.Errorf("%d images, %v, %v", len(images), err, err2)
	}
}

// The same handwriting is not packed twice: it could be in two parts.
func TestNoImageIsThereTwice(t *testing.T) {
	seen := map[[Side * Side]byte]int{}
	for i, image := range load(t).Images {
		if other, found := seen[image.Pixels]; found {
			t.Errorf("images %d and %d are the same", other, i)
		}
		seen[image.Pixels] = i
	}
}

func TestDamagedDataIsRefused(t *testing.T) {
	for name, data := range map[string][]byte{
		"half a header":      {1, 2, 3},
		"no samples":         {1, 2, 3, 200, 0, 1},
		"a label of 10":      {10, 0, 0, 0, 0},
		"an unknown speaker": {1, 6, 0, 0, 0},
		"a long recording":   append([]byte{1, 0, 0, 0x41, 0x1f}, make([]byte, 5000)...),
	} {
		if _, err := readSounds(data); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := readImages(make([]byte, 784)); err == nil {
		t.Error("part of an image is accepted")
	}
}

// A tone survives the coding, to a hundredth of its power.
func TestCompression(t *testing.T) {
	samples := make([]int16, 1001)
	for i := range samples {
		samples[i] = int16(8000 * math.Sin(float64(i)/5))
	}
	codes := compress(samples)
	if len(codes) != 501 {
		t.Errorf("%d bytes", len(codes))
	}
	var noise, power float64
	for i, s := range Expand(codes, len(samples)) {
		if i >= 50 { // the step grows at first
			noise += math.Pow(float64(s)-float64(samples[i]), 2)
			power += math.Pow(float64(samples[i]), 2)
		}
	}
	if noise > power/100 {
		t.Errorf("the noise has %.4f of the power", noise/power)
	}
}

// No image, no recording and no speaker is where it must not be, and pairs are of one
// label and of one part.
func TestPartsShareNothing(t *testing.T) {
	d := load(t).Split(1)
	imagesOf, soundsOf := map[int]Part{}, map[int]Part{}
	for p := range parts {
		for _, i := range d.images[p] {
			if other, found := imagesOf[i]; found && p != Unheard {
				t.Fatalf("image %d is in parts %d and %d", i, other, p)
			}
			if p != Unheard {
				imagesOf[i] = p
			}
		}
		for label, list := range d.sounds[p] {
			for _, i := range list {
				if other, found := soundsOf[i]; found {
					t.Fatalf("recording %d is in parts %d and %d", i, other, p)
				}
				soundsOf[i] = p
				if r := d.Set.Sounds[i]; r.Label != label || (r.Speaker == unheard) != (p == Unheard) {
					t.Fatalf("recording %d of %d by %s is in part %d as %d", i, r.Label, Speakers[r.Speaker], p, label)
				}
			}
		}
	}
	if len(imagesOf) != len(d.Set.Images) || len(soundsOf) != len(d.Set.Sounds) {
		t.Errorf("%d images and %d recordings are in a part", len(imagesOf), len(soundsOf))
	}
	random, e := rand.New(rand.NewPCG(1, 1)), new(Example)
	for p := range parts {
		for i := range 50 {
			if d.Example(e, p, i); i%2 == 0 {
				d.Draw(e, p, random)
			}
			image := imagesOf[e.Image]
			if p == Unheard && image == HeldOut {
				image = Unheard
			}
			if image != p || soundsOf[e.Sound] != p || d.Set.Images[e.Image].Label != e.Label || d.Set.Sounds[e.Sound].Label != e.Label {
				t.Fatalf("part %d has the pair of image %d and recording %d", p, e.Image, e.Sound)
			}
		}
	}
}

// A seed has one split and one noise, and another seed others.
func TestSeeds(t *testing.T) {
	s := load(t)
	a, b, other := s.Split(1), s.Split(1), s.Split(2)
	if !slices.Equal(a.images[HeldOut], b.images[HeldOut]) || slices.Equal(a.images[HeldOut], other.images[HeldOut]) {
		t.Error("the split does not follow the seed")
	}
	var x, y, z Example
	a.Example(&x, HeldOut, 7)
	b.Example(&y, HeldOut, 7)
	a.Example(&z, HeldOut, 8)
	if label, image, sound := a.Pair(HeldOut, 7); label != x.Label || image != x.Image || sound != x.Sound {
		t.Errorf("the pair is %d, %d, %d, and its example %d, %d, %d", label, image, sound, x.Label, x.Image, x.Sound)
	}
	if x != y || x.Pixels == z.Pixels || x.Samples == z.Samples {
		t.Error("an example is not the same each time, or another is")
	}
}
