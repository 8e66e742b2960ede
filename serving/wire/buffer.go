package wire

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Buffer is the memory of a body. The memory serves another once nobody holds the
// Buffer any more: fresh memory for each long prompt costs more than all that is
// done with it. Of a Buffer that nobody releases it does not; nothing else is lost.
type Buffer struct {
	bytes   []byte
	memory  *memory // that bytes are in; nil if it serves nobody else
	holders atomic.Int32
}

type memory struct{ bytes []byte }

// longest is the memory that is kept: of each power of two up to 2^longest.
const longest = 20

var idle [longest + 1]sync.Pool // of *memory

// NewBuffer is one of so many bytes, whatever they are. The caller holds it.
func NewBuffer(size int) *Buffer {
	n := bits.Len(uint(max(size, 1) - 1)) // size is at most 2^n
	if n > longest {
		return Wrap(make([]byte, size))
	}
	m, ok := idle[n].Get().(*memory)
	if !ok {
		m = &memory{make([]byte, 1<<n)}
	}
	b := Wrap(m.bytes[:size])
	b.memory = m
	return b
}

// Wrap is a Buffer of bytes that come from elsewhere. The caller holds it.
func Wrap(bytes []byte) *Buffer {
	b := &Buffer{bytes: bytes}
	b.holders.Store(1)
	return b
}

// Bytes are good until the caller releases the buffer.
func (b *Buffer) Bytes() []byte { return b.bytes }

// hold makes the caller one more of those who hold the buffer. It reports false
// if nobody does any more: then its memory may be another's by now.
func (b *Buffer) hold() bool {
	for n := b.holders.Load(); n > 0; n = b.holders.Load() {
		if b.holders.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// Release ends the caller's hold.
func (b *Buffer) Release() {
	if b.holders.Add(-1) == 0 && b.memory != nil {
		idle[bits.Len(uint(len(b.memory.bytes)-1))].Put(b.memory)
	}
}
