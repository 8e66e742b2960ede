package wire

import "golang.org/x/sys/cpu"

// plainBlocks is plain, in blocks, as far as all of a block is plain.
func plainBlocks(b []byte, inside bool) (n, begun int, within, ascii bool) {
	if !cpu.X86.HasAVX2 || len(b) < 32 {
		return plainWords(b, inside)
	}
	var after uint32 // 1: a space is before
	if !inside {
		after = 1
	}
	blocks, begun, after, high := plainAVX2(&b[0], len(b)/32, after)
	return 32 * blocks, begun, after == 0, high == 0
}

// plainAVX2 is plainBlocks over blocks of 32 bytes, of which there is at least one.
// High has a bit for each place in a block where some byte is no ASCII.
//
//go:noescape
func plainAVX2(p *byte, blocks int, after uint32) (done, begun int, afterLast, high uint32)
