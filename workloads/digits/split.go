package digits

import "math/rand/v2"

// Part is a share of the digits. No image and no recording is in two of them, except that
// Unheard has the images of HeldOut.
type Part int

// The parts: to train with, to choose by, and to count accuracy on; Unheard is the
// recordings of a speaker whom the other parts do not have.
const (
	Training Part = iota
	Validation
	HeldOut
	Unheard
	parts
)

// unheard is the speaker of the part of that name.
const unheard = len(Speakers) - 1

// shares are the tenths of images, and of each speaker's recordings, in the first three
// parts.
var shares = [...]int{Training: 7, Validation: 1, HeldOut: 2}

// Split divides a set, label by label.
type Split struct {
	*Set
	seed   uint64
	images [parts][]int // of Set.Images, in a drawn order
	sounds [parts][Labels][]int
}

// The streams of random numbers that a seed has.
const (
	splitStream = iota + 1
	exampleStream
)

// Split divides the set by a drawn order of the images of each label, and of the
// recordings of each label and speaker. The same seed gives the same parts.
func (s *Set) Split(seed uint64) *Split {
	random := rand.New(rand.NewPCG(seed, splitStream))
	d := &Split{Set: s, seed: seed}
	for label := range Labels {
		images := indices(s.Images, func(i Image) bool { return i.Label == label })
		for p, list := range divide(images, random) {
			d.images[p] = append(d.images[p], list...)
		}
		for speaker := range Speakers {
			sounds := indices(s.Sounds, func(r Sound) bool { return r.Label == label && r.Speaker == speaker })
			if speaker == unheard {
				d.sounds[Unheard][label] = sounds
				continue
			}
			for p, list := range divide(sounds, random) {
				d.sounds[p][label] = append(d.sounds[p][label], list...)
			}
		}
	}
	for p := range d.images {
		list := d.images[p]
		random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	d.images[Unheard] = d.images[HeldOut]
	return d
}

// indices are those of the elements that fit.
func indices[T any](list []T, fits func(T) bool) (found []int) {
	for i, v := range list {
		if fits(v) {
			found = append(found, i)
		}
	}
	return found
}

// divide shuffles the list and cuts it by the shares.
func divide(list []int, random *rand.Rand) (cut [len(shares)][]int) {
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	from, tenths := 0, 0
	for p, share := range shares {
		tenths += share
		to := len(list) * tenths / 10
		cut[p] = list[from:to:to]
		from = to
	}
	return cut
}

// Images is how many images a part has.
func (d *Split) Images(p Part) int { return len(d.images[p]) }

// Recordings is how many recordings a part has.
func (d *Split) Recordings(p Part) (n int) {
	for _, list := range d.sounds[p] {
		n += len(list)
	}
	return n
}

// Example is a pair of an image and a sound of the same digit, with noise.
type Example struct {
	Label        int
	Image, Sound int // which of the set's they are
	Pixels       [Side * Side]byte
	Samples      [Samples]int16
}

// Draw fills in an example of the part with an image, a recording and noise that are
// drawn.
func (d *Split) Draw(e *Example, p Part, random *rand.Rand) {
	d.make(e, p, d.images[p][random.IntN(len(d.images[p]))], random)
}

// Example fills in the i-th example of the part: the i-th of its images in a drawn order,
// which begins again where it ends, with a recording and noise that are the same each
// time.
func (d *Split) Example(e *Example, p Part, i int) {
	image, random := d.at(p, i)
	d.make(e, p, image, random)
}

// Pair is what the i-th example of the part consists of, without its noise: the label, and
// which of the set's images and recordings.
func (d *Split) Pair(p Part, i int) (label, image, sound int) {
	image, random := d.at(p, i)
	return d.Set.Images[image].Label, image, d.sound(p, image, random)
}

// at is the image of the i-th example, and what the rest of it is drawn from.
func (d *Split) at(p Part, i int) (image int, random *rand.Rand) {
	list := d.images[p]
	return list[i%len(list)], rand.New(rand.NewPCG(d.seed, exampleStream+uint64(p)<<8+uint64(i)<<16))
}

// sound draws a recording of the image's digit.
func (d *Split) sound(p Part, image int, random *rand.Rand) int {
	sounds := d.sounds[p][d.Set.Images[image].Label]
	return sounds[random.IntN(len(sounds))]
}

func (d *Split) make(e *Example, p Part, image int, random *rand.Rand) {
	e.Label, e.Image, e.Sound = d.Set.Images[image].Label, image, d.sound(p, image, random)
	spoil(&e.Pixels, &d.Set.Images[image], random)
	disturb(&e.Samples, d.Set.Sounds[e.Sound].Samples, random)
}
