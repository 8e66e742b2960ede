package tokens

// unit is one token in the scale of the weights.
const unit = 1000

// What begins has a weight by what is before it.
const (
	wordAfterSpace  = unit // or at the start of a line: a short word is a token
	wordAfterPunct  = 1.212 * unit
	wordAfterDigit  = 0.977 * unit
	wordAfterHigh   = 0.9 * unit  // after what is not ASCII: most of these are one word with it
	letterEighth    = 0.25 * unit // each letter from the eighth of a word on
	upperAfterLower = 0.6 * unit  // the next word of an identifier
	upperAfterShort = 2.1 * unit  // in addition where the last is of a letter or two: random text
	upperAfterUpper = 0.083 * unit

	number           = 0.96 * unit
	numberAfterSpace = 0.785 * unit // in addition: the space is a token of its own
	digitMore        = 0.52 * unit  // by most vocabularies one token of three digits, by some each

	punctAfterSpace = 1.018 * unit
	punctAfterWord  = 0.741 * unit // after a word, a number, or what is not ASCII
	punctMore       = 0.004 * unit // a run of punctuation is mostly one token

	spaceSecond    = 0.746 * unit // the second of a run, which is one token
	spaceMore      = 0.008 * unit
	lineAfterPunct = 0.138 * unit
	lineAfterWord  = 0.644 * unit // or after spaces
	lineMore       = 0.02 * unit
)

// scripts are the weights of characters that are not ASCII. Vocabularies differ most in
// these. Each weight is, where there is one, within a factor of 1.5 of all that it was fitted
// to, and otherwise of most.
var scripts = []struct {
	first, last rune
	weight      float64
}{
	{0x80, 0xff, 0.8}, // Latin with marks
	{0x100, 0x17f, 1.2},
	{0x180, 0x1bf, 0.2},
	{0x1c0, 0x37f, 0.65},
	{0x380, 0x3ff, 0.67},
	{0x400, 0x52f, 0.4}, // Cyrillic
	{0x530, 0x58f, 1.1},
	{0x590, 0x5ff, 0.74}, // Hebrew
	{0x600, 0x7ff, 0.56}, // Arabic and its kin
	{0x800, 0x8ff, 1.3},
	{0x900, 0x97f, 0.89}, // Devanagari
	{0x980, 0xb7f, 1.3},
	{0xb80, 0xbff, 1.04}, // Tamil
	{0xc00, 0xdff, 1.3},
	{0xe00, 0xe7f, 0.6}, // Thai
	{0xe80, 0xfff, 1.85},
	{0x1000, 0x1dff, 1.4}, // Burmese, Georgian, Khmer
	{0x1e00, 0x1eff, 0.1}, // Vietnamese
	{0x1f00, 0x1fff, 0.67},
	{0x2000, 0x207f, 0.5}, // dashes and quotation marks
	{0x2080, 0x2fff, 1},   // symbols
	{0x3000, 0x303f, 0.4}, // punctuation of Chinese and Japanese
	{0x3040, 0x30ff, 0.82},
	{0x3100, 0x9fff, 0.9},   // Chinese characters
	{0xa000, 0xdfff, 0.93},  // Korean syllables
	{0xe000, 0xffff, 0.8},   // wide forms
	{0x10000, 0x3ffff, 1.9}, // emoji, rare Chinese characters
	{0x40000, 0x10ffff, 3},
}

// cells are the weights of the scripts, in steps of 64 characters below 0x4000; planes those
// of the rest, in steps of 4096 below 0x10000.
var (
	cells  [256]uint16
	planes [16]uint16
	astral uint16
)

func init() {
	for _, s := range scripts {
		weight := uint16(s.weight * unit)
		for r := s.first; r <= s.last && r < 0x4000; r += 64 {
			cells[r>>6] = weight
		}
		for r := s.first; r <= s.last && r < 0x10000; r += 4096 {
			planes[r>>12] = weight
		}
		if s.first == 0x10000 {
			astral = weight
		}
	}
}
