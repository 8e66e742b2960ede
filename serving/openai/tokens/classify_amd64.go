package tokens

import "golang.org/x/sys/cpu"

// classify says of each byte what it is.
func classify(b *[64]byte, x *block) {
	if !cpu.X86.HasAVX2 {
		classifyWords(b, x)
		return
	}
	classifyAVX2(b, x)
}

// classifyAVX2 is classify, 32 bytes at a time.
//
//go:noescape
func classifyAVX2(b *[64]byte, x *block)
