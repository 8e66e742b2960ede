package quality

import (
	"math"
	"slices"
)

// The bounds of what is read of a prompt: of a longer one the beginning and the end are.
const (
	readHead = 6 << 10
	readTail = 4 << 10
)

// Prompt holds what a predictor reads of a request. Parts are the texts of its turns in their
// order, which are not changed.
type Prompt struct {
	Parts [][]byte
	// Task is the request's task by name; empty if it has none.
	Task string
	// Turns counts the messages, Tools the functions that may be called, and Images the
	// inputs that are no text.
	Turns, Tools, Images int
}

// The numbers of a prompt's form.
const (
	formLength = iota
	formWords
	formWordLength
	formDigits
	formUpper
	formForeign
	formLines
	formBrackets
	formCode
	formQuestions
	formTurns
	formTools
	formImages
	forms
)

// Sample holds what is kept of a prompt, which is no text.
type Sample struct {
	// IDs are the buckets that occur, each once, and Counts how often each does.
	IDs, Counts []uint16
	// Words are the words that occur, by a longer hash.
	Words []uint32
	// Form is the prompt's length, the shares of kinds of characters, and the like.
	Form [forms]float32
}

// Clone returns a copy that shares no memory.
func (s *Sample) Clone() Sample {
	return Sample{IDs: slices.Clone(s.IDs), Counts: slices.Clone(s.Counts), Words: slices.Clone(s.Words), Form: s.Form}
}

// hash is the same for equal prompts.
func (s *Sample) hash() uint64 {
	hash := uint64(offset)
	for i, id := range s.IDs {
		hash = (hash ^ uint64(id)<<16 ^ uint64(s.Counts[i])) * prime
	}
	return hash
}

// Features are the [Sample] of one prompt after the other, in the same memory. They are used
// by one goroutine at a time.
type Features struct {
	Sample

	slots []uint16 // by bucket: 1 + its place in IDs; all zero between calls
	words int      // that were read
	last  uint64   // the word before; 0 at the beginning of a part
}

// Read replaces the features by those of the prompt, hashed under the key.
func (f *Features) Read(p *Prompt, key uint64) {
	if f.slots == nil {
		f.slots = make([]uint16, Buckets)
	}
	for _, id := range f.IDs {
		f.slots[id] = 0
	}
	f.IDs, f.Counts, f.Words = f.IDs[:0], f.Counts[:0], f.Words[:0]
	f.words = 0
	var total int
	for _, part := range p.Parts {
		total += len(part)
	}
	var c classes
	head, skipped := readHead, total-readHead-readTail
	for _, part := range p.Parts {
		f.last = 0
		if n := min(head, len(part)); n > 0 {
			f.scan(part[:n], key, &c)
			part, head = part[n:], head-n
		}
		if n := min(skipped, len(part)); n > 0 && head == 0 {
			part, skipped, f.last = part[n:], skipped-n, 0
		}
		f.scan(part, key, &c)
	}
	if p.Task != "" {
		f.add(mix(key^1, hashString(p.Task)))
	}
	f.form(p, &c, total)
}

// classes counts bytes by kind.
type classes struct {
	read, digits, upper, foreign, lines, brackets, code, questions, letters int
}

// form computes the numbers of the form from the counts.
func (f *Features) form(p *Prompt, c *classes, total int) {
	n, words := float64(max(1, c.read)), float64(max(1, f.words))
	share := func(k int) float32 { return float32(math.Sqrt(float64(k) / n)) }
	f.Form = [forms]float32{
		formLength:     float32(math.Log1p(float64(total))),
		formWords:      float32(math.Log1p(float64(f.words))),
		formWordLength: float32(float64(c.letters) / words),
		formDigits:     share(c.digits),
		formUpper:      share(c.upper),
		formForeign:    share(c.foreign),
		formLines:      share(c.lines),
		formBrackets:   share(c.brackets),
		formCode:       share(c.code),
		formQuestions:  float32(math.Log1p(float64(c.questions))),
		formTurns:      float32(math.Log1p(float64(p.Turns))),
		formTools:      float32(math.Log1p(float64(p.Tools))),
		formImages:     float32(math.Log1p(float64(p.Images))),
	}
}

// The kinds of bytes.
const (
	space = iota
	letter
	digit
	upper
	foreign
	line
	bracket
	code
	question
	other
)

var kinds = func() (k [256]uint8) {
	for b := range k {
		switch c := byte(b); {
		case c >= 'a' && c <= 'z':
			k[b] = letter
		case c >= 'A' && c <= 'Z':
			k[b] = upper
		case c >= '0' && c <= '9':
			k[b] = digit
		case c >= 0x80:
			k[b] = foreign
		case c == '\n':
			k[b] = line
		case slices.Contains([]byte("()[]{}<>"), c):
			k[b] = bracket
		case slices.Contains([]byte("=;_\\`|#&*+/^$%@~"), c):
			k[b] = code
		case c == '?':
			k[b] = question
		case c <= ' ':
			k[b] = space
		default:
			k[b] = other
		}
	}
	return k
}()

// scan adds the words of the text, its pairs of words and the marks between them.
func (f *Features) scan(text []byte, key uint64, c *classes) {
	c.read += len(text)
	var counts [other + 1]int
	for i := 0; i < len(text); {
		kind := kinds[text[i]]
		switch kind {
		case letter, upper, digit:
			hash := uint64(offset)
			for ; i < len(text); i++ {
				b := text[i]
				k := kinds[b]
				if k != letter && k != upper && k != digit {
					break
				}
				counts[k]++
				if k == upper {
					b |= 0x20
				}
				hash = (hash ^ uint64(b)) * prime
			}
			f.word(hash, key)
		case foreign:
			i = f.foreign(text, i, key, &counts)
		case space, line:
			counts[kind]++
			i++
		default:
			counts[kind]++
			f.add(mix(key, uint64(text[i])|1<<40))
			i++
		}
	}
	c.digits += counts[digit]
	c.upper += counts[upper]
	c.foreign += counts[foreign]
	c.lines += counts[line]
	c.brackets += counts[bracket]
	c.code += counts[code]
	c.questions += counts[question]
	c.letters += counts[letter] + counts[upper] + counts[digit]
}

// foreign adds a word of bytes beyond ASCII that begins at i, and returns where it ends. In
// scripts that are written without spaces each character is a word: those of three bytes
// and more.
func (f *Features) foreign(text []byte, i int, key uint64, counts *[other + 1]int) int {
	hash, first := uint64(offset), text[i]
	for n := 0; i < len(text); n++ {
		b := text[i]
		k := kinds[b]
		if k != foreign && (first >= 0xE3 || k != letter && k != upper) {
			break
		}
		if n > 0 && first >= 0xE3 && b >= 0xC0 {
			break
		}
		counts[k]++
		hash = (hash ^ uint64(b)) * prime
		i++
	}
	f.word(hash, key)
	return i
}

// word adds a word, and the pair that it makes with the one before.
func (f *Features) word(hash, key uint64) {
	f.words++
	if mixed := mix(key, hash); f.add(mixed) {
		f.Words = append(f.Words, uint32(mixed<<bucketBits>>(64-wordBits)))
	}
	if f.last != 0 {
		f.add(mix(key, f.last*3+hash))
	}
	f.last = hash
}

// add counts a bucket, and reports whether it is new.
func (f *Features) add(hash uint64) bool {
	id := uint16(hash >> (64 - bucketBits))
	if at := f.slots[id]; at != 0 {
		if n := &f.Counts[at-1]; *n < math.MaxUint16 {
			*n++
		}
		return false
	}
	f.IDs, f.Counts = append(f.IDs, id), append(f.Counts, 1)
	f.slots[id] = uint16(len(f.IDs))
	return true
}

// FNV-1a, and a finaliser that mixes the key in.
const (
	offset = 0xcbf29ce484222325
	prime  = 0x100000001b3
)

func hashString(s string) uint64 {
	hash := uint64(offset)
	for i := range len(s) {
		hash = (hash ^ uint64(s[i])) * prime
	}
	return hash
}

func mix(key, hash uint64) uint64 {
	x := hash ^ key
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}
