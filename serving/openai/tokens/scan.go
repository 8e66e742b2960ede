// Package tokens estimates how many tokens a byte-level BPE tokenizer makes of a text,
// without a vocabulary: the router has no tokenizer, and each model another. The text is
// read in blocks of 64 bytes. What begins where (words, numbers, punctuation, white space) is
// found by bit masks, and each kind of beginning has a weight; so has each character that is not
// ASCII, by its script. The weights are fitted to public vocabularies, see testdata.
package tokens

import (
	"encoding/binary"
	"math/bits"
)

// A text longer than whole bytes is read in samples of sample bytes, evenly spread, which
// are whole bytes in all: its estimate takes no more time the longer it is.
const (
	whole  = 4 << 10
	sample = 64
)

// JSON estimates the tokens of JSON text: a whole value as a prompt would have it, or the
// inside of a string. Escapes count as what they stand for.
func JSON(b []byte) int {
	if len(b) <= whole {
		return min(round(scan(b, runs{line: last})), len(b))
	}
	const samples = whole / sample
	var sum uint64
	step := len(b) / samples
	for i := range samples {
		// Spread within its step, or what repeats would meet each at the same place.
		at := i*step + int(uint32(i)*0x9e3779b1>>16)*(step-sample)>>16
		sum += scan(b[at:at+sample], before(b[:at]))
	}
	return min(round(sum*uint64(len(b))/whole), len(b))
}

func round(sum uint64) int { return int((sum + unit/2) / unit) }

// last is the place of the last byte of a block.
const last = 1 << 63

// before is what is known after b, of which it looks at the last bytes.
func before(b []byte) (p runs) {
	if len(b) < 2 {
		return runs{line: last}
	}
	switch c := b[len(b)-1]; {
	case 'a' <= c|0x20 && c|0x20 <= 'z':
		p.letter = last
	case '0' <= c && c <= '9':
		p.digit = last
	case c == ' ':
		p.space = last
		if b[len(b)-2] == ' ' {
			p.spaces = last
		}
	case c < ' ':
		p.line = last
	case c >= 0x80:
		p.high = last
	default:
		p.punct = last
	}
	return p
}

// block is what the bytes of a block are, one bit for each, the first byte's the lowest.
type block struct{ letter, upper, digit, space, slash, control, high uint64 }

// runs are the last bits of the block before, by which a beginning is recognised.
type runs struct {
	letter, two, four, lower, upper, digit, space, spaces, line, punct, high, indent uint64
}

// scan is the weighed sum of what b holds, which p is before. A text begins as a line does.
func scan(b []byte, p runs) (sum uint64) {
	var tail [64]byte
	for len(b) > 0 {
		in, n := b, 64
		if len(b) < 64 {
			n = copy(tail[:], b)
			clear(tail[n:])
			in = tail[:]
		}
		var x block
		classify((*[64]byte)(in), &x)
		var line, escaped uint64
		if x.slash != 0 {
			var more uint64
			n, line, escaped, more = x.unescape(b, n)
			sum += more
		}
		if n < 64 {
			x.cut(1<<n - 1)
			line &= 1<<n - 1
		}
		sum += p.weigh(&x, n, line, escaped)
		if x.high&^escaped != 0 {
			sum += foreign(b[:min(n+3, len(b))], x.high&^escaped)
		}
		b = b[n:]
	}
	return sum
}

// cut leaves the bits of the mask.
func (x *block) cut(mask uint64) {
	x.letter &= mask
	x.upper &= mask
	x.digit &= mask
	x.space &= mask
	x.slash &= mask
	x.control &= mask
	x.high &= mask
}

// after is the mask of what follows the marked bytes by one place.
func after(now, before uint64, n int) uint64 { return now<<n | before>>(64-n) }

// weigh sums the weights of the n bytes of a block.
func (p *runs) weigh(x *block, n int, line, escaped uint64) (sum uint64) {
	all := ^uint64(0) >> (64 - n)
	var indent uint64
	if x.control|p.indent != 0 {
		indent = x.indent(p)
	}
	lower := x.letter &^ x.upper
	punct := all &^ (x.letter | x.digit | x.space | x.high | line)

	afterLetter := after(x.letter, p.letter, 1)
	afterSpace, afterLine := after(x.space, p.space, 1), after(line, p.line, 1)
	afterPunct, afterDigit := after(punct, p.punct, 1), after(x.digit, p.digit, 1)
	afterHigh := after(x.high, p.high, 1)

	// The letters that have seven of their run before them.
	two := x.letter & afterLetter
	four := two & after(two, p.two, 2)
	eight := four & after(four, p.four, 4)
	spaces := x.space &^ indent & afterSpace

	sum += wordAfterSpace*count(x.letter&(afterSpace|afterLine)) +
		wordAfterPunct*count(x.letter&afterPunct) +
		letterEighth*count(eight) +
		punctAfterSpace*count(punct&(afterSpace|afterLine)) +
		punctAfterWord*count(punct&(afterLetter|afterDigit|afterHigh)) +
		punctMore*count(punct&afterPunct)
	if x.upper != 0 {
		begun := x.upper & after(lower, p.lower, 1)
		short := after(x.upper, p.upper, 2) | after(x.upper, p.upper, 3)
		sum += upperAfterLower*count(begun) + upperAfterShort*count(begun&short) + upperAfterUpper*count(x.upper&after(x.upper, p.upper, 1))
	}
	if x.digit|p.digit != 0 {
		begun := x.digit &^ afterDigit
		sum += number*count(begun) + numberAfterSpace*count(begun&afterSpace) +
			digitMore*count(x.digit&afterDigit) + wordAfterDigit*count(x.letter&afterDigit)
	}
	if spaces != 0 {
		third := spaces & after(spaces, p.spaces, 1)
		sum += spaceSecond*count(spaces&^third) + spaceMore*count(third)
	}
	if line != 0 {
		sum += lineAfterPunct*count(line&afterPunct) + lineAfterWord*count(line&^(afterPunct|afterLine)) + lineMore*count(line&afterLine)
	}
	if x.high|p.high != 0 {
		sum += wordAfterHigh * count(x.letter&afterHigh)
	}

	*p = runs{x.letter, two, four, lower, x.upper, x.digit, x.space, spaces, line, punct, x.high, indent}
	if n < 64 {
		p.shift(64 - n)
	}
	return sum
}

// shift brings the bits of a block of fewer bytes to where those of a whole one end.
func (p *runs) shift(n int) {
	for _, m := range []*uint64{&p.letter, &p.two, &p.four, &p.lower, &p.upper, &p.digit, &p.space, &p.spaces, &p.line, &p.punct, &p.high, &p.indent} {
		*m <<= n
	}
}

// indent makes spaces of the line ends that lie between values, since none are within
// strings, and marks them with the spaces that follow: a template writes JSON without.
func (x *block) indent(p *runs) uint64 {
	x.space |= x.control
	begun := x.control&^(x.control<<1) | x.space&(p.indent>>63)
	// What is added to the first of a run of spaces goes on to its end.
	return (x.space^(x.space+begun))&x.space | x.control
}

func count(mask uint64) uint64 { return uint64(bits.OnesCount64(mask)) }

// unescape makes of each escape sequence what it stands for, over all its bytes. The
// block ends before one that it does not hold to its end, and before one that follows too
// many. More is the weight of what is not ASCII among them.
func (x *block) unescape(b []byte, n int) (length int, line, escaped, more uint64) {
	done := uint64(0) // the bytes of sequences
	for left := x.slash; left != 0; left = x.slash &^ done {
		at := bits.TrailingZeros64(left)
		if at >= n {
			break
		}
		size := 2
		if at+1 < len(b) && b[at+1] == 'u' {
			size = 6
		}
		if at+size > n {
			if at > 0 && at+size <= len(b) {
				return at, line, escaped, more
			}
			size = n - at // torn, or the text ends in it
		}
		all := (uint64(1)<<size - 1) << at
		x.letter &^= all
		x.upper &^= all
		x.digit &^= all
		done |= all
		if size < 2 {
			continue
		}
		switch b[at+1] {
		case 'n', 'r', 't':
			line |= all
		case 'u':
			if r := codeUnit(b[at+2:]); size == 6 && r >= 0x80 {
				x.high |= all
				escaped |= all
				more += ofUnit(r)
			}
		} // all others are of punctuation, as the two bytes are

	}
	return n, line, escaped, more
}

// codeUnit is what the hexadecimal digits at the start of b stand for; zero if there are fewer than four.
func codeUnit(b []byte) (r uint32) {
	if len(b) < 4 {
		return 0
	}
	for _, c := range b[:4] {
		if c |= 0x20; c >= 'a' {
			c -= 'a' - 10
		}
		r = r<<4 | uint32(c&15)
	}
	return r
}

// ofUnit is the weight of a character that is not ASCII, by its code unit of UTF-16.
func ofUnit(r uint32) uint64 {
	switch {
	case r < 0x4000:
		return uint64(cells[r>>6])
	case r>>10 == 0xd800>>10: // the first half of a character beyond U+FFFF
		return uint64(astral)
	case r>>10 == 0xdc00>>10:
		return 0
	}
	return uint64(planes[r>>12])
}

// foreign is the weight of the characters of b that begin where the mask has a bit.
func foreign(b []byte, mask uint64) (sum uint64) {
	for ; mask != 0; mask &= mask - 1 {
		at := bits.TrailingZeros64(mask)
		switch c := b[at]; {
		case c < 0xc0: // within a character
		case c < 0xe0:
			sum += uint64(cells[c&0x1f])
		case c < 0xe4:
			if at+1 < len(b) {
				sum += uint64(cells[c<<6|b[at+1]&0x3f])
			}
		case c < 0xf0:
			sum += uint64(planes[c&15])
		default:
			sum += uint64(astral)
		}
	}
	return sum
}

// classifyWords is classify, eight bytes at a time.
func classifyWords(b *[64]byte, x *block) {
	*x = block{}
	for i := 0; i < 64; i += 8 {
		v := binary.LittleEndian.Uint64(b[i:])
		low := v &^ high
		ascii := ^v & high
		lower := (low | 0x20*every)
		x.letter |= gather(within(lower, 'a', 'z')&ascii) << i
		x.upper |= gather(within(low, 'A', 'Z')&ascii) << i
		x.digit |= gather(within(low, '0', '9')&ascii) << i
		x.space |= gather(within(low, ' ', ' ')&ascii) << i
		x.slash |= gather(within(low, '\\', '\\')&ascii) << i
		x.control |= gather(within(low, 0, 0x1f)&ascii) << i
		x.high |= gather(v&high) << i
	}
}

// Eight bytes at a time: each constant is its byte in every place.
const (
	every = 0x0101010101010101
	high  = 0x80 * every
)

// within has the high bit of each byte of v, all below 0x80, that is from first to last.
func within(v uint64, first, last byte) uint64 {
	atLeast := v + (0x80-uint64(first))*every
	beyond := v + (0x7f-uint64(last))*every
	return atLeast &^ beyond & high
}

// gather brings the high bits of eight bytes together.
func gather(v uint64) uint64 { return (v >> 7) * 0x0102040810204080 >> 56 }
