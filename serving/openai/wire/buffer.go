package wire

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Buffer is the memory of a body. The memory serves another body once the last holder has
// released the Buffer: fresh memory for each long prompt costs more than all that is
// done with it. One that is never released only loses that.
type Buffer struct {
	bytes   []byte
	memory  *memory // that bytes are in; nil if it serves only this
	charge  Charge  // for the memory; nil if there is none
	holders atomic.Int32
}

type memory struct{ bytes []byte }

// Charge is the account to which the memory of a [Buffer] is charged.
type Charge interface{ Free() }

// longest is the memory that is kept: of each power of two up to 2^longest.
const longest = 20

var idle [longest + 1]sync.Pool // of *memory

// NewBuffer is one of so many bytes, whatever they are. The caller holds it.
func NewBuffer(size int) *Buffer {
	b := Wrap(nil)
	b.bytes, b.memory = newMemory(size)
	return b
}

func newMemory(size int) ([]byte, *memory) {
	n := bits.Len(uint(max(size, 1) - 1)) // size is at most 2^n
	if n > longest {
		return make([]byte, size), nil
	}
	m, ok := idle[n].Get().(*memory)
	if !ok {
		m = &memory{make([]byte, 1<<n)}
	}
	return m.bytes[:size], m
}

// Grow makes the buffer one of so many bytes, the first n as they were. Only the
// caller may hold it.
func (b *Buffer) Grow(size, n int) {
	next, memory := newMemory(size)
	copy(next, b.bytes[:n])
	b.memory.free()
	b.bytes, b.memory = next, memory
}

// free has the memory serve another.
func (m *memory) free() {
	if m != nil {
		idle[bits.Len(uint(len(m.bytes)-1))].Put(m)
	}
}

// Occupied is the memory that a Buffer of so many bytes takes.
func Occupied(size int) int64 {
	if n := bits.Len(uint(max(size, 1) - 1)); n <= longest {
		return 1 << n
	}
	return int64(size)
}

// Wrap is a Buffer of bytes that come from elsewhere. The caller holds it.
func Wrap(bytes []byte) *Buffer {
	b := &Buffer{bytes: bytes}
	b.holders.Store(1)
	return b
}

// Bytes are good until the caller releases the buffer.
func (b *Buffer) Bytes() []byte { return b.bytes }

// Truncate leaves the first n bytes.
func (b *Buffer) Truncate(n int) { b.bytes = b.bytes[:n] }

// Charged has a charge freed when the one who made the buffer releases it.
func (b *Buffer) Charged(c Charge) { b.charge = c }

// hold makes the caller one more of those who hold the buffer. It reports false
// if it has no holder any more: then its memory may be another's by now.
func (b *Buffer) hold() bool {
	for n := b.holders.Load(); n > 0; n = b.holders.Load() {
		if b.holders.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// Release ends the hold of the one who made the buffer.
func (b *Buffer) Release() {
	if b.charge != nil {
		b.charge.Free()
	}
	b.release()
}

// release ends a hold.
func (b *Buffer) release() {
	if b.holders.Add(-1) == 0 {
		b.memory.free()
	}
}
