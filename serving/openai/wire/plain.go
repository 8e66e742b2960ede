package wire

import (
	"encoding/binary"
	"math/bits"
)

// plain reads the plain text that b begins with, up to the first quote, backslash
// or control character: its length, and the words that begin in it. Inside says
// whether it begins, and ends, within a word. Only spaces separate words.
func plain(b []byte, inside bool) (n, begun int, within, ascii bool) {
	n, begun, inside, ascii = plainBlocks(b, inside)
	for ; n < len(b) && b[n] != '"' && b[n] != '\\' && b[n] >= ' '; n++ {
		word := b[n] != ' '
		if word && !inside {
			begun++
		}
		inside = word
		ascii = ascii && b[n] < 0x80
	}
	return n, begun, inside, ascii
}

// Eight bytes at a time: each constant is its byte in every place.
const (
	every  = 0x0101010101010101
	high   = 0x80 * every
	quotes = '"' * every
	slants = '\\' * every
	spaces = ' ' * every
)

// plainWords is plain, eight bytes at a time, as far as all eight are plain.
func plainWords(b []byte, inside bool) (n, begun int, within, ascii bool) {
	var all uint64
	var before uint64 // the high bit of the lowest byte: a word goes on
	if inside {
		before = 0x80
	}
	for ; n+8 <= len(b); n += 8 {
		x := binary.LittleEndian.Uint64(b[n:])
		// What is taken away reaches below zero where a byte is none of the plain.
		if (((x^quotes)-every)|((x^slants)-every)|(x-spaces))&^x&high != 0 {
			break
		}
		all |= x
		// The high bit of each byte that is no space.
		y := x ^ spaces
		word := (y&^high + ^uint64(high)) | y
		begun += bits.OnesCount64(word &^ (word<<8 | before) & high)
		before = word >> 56
	}
	return n, begun, before&0x80 != 0, all&high == 0
}
