package durable

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"go.etcd.io/bbolt"
)

// bbolt follows the page numbers, counts and offsets of its file without
// question: a flipped bit sends it in circles, beyond the file, or to write
// over live pages. So the pages are walked here first, with every number
// checked, under the file's lock. Contents have checksums of their own.
//
// The layout is version 2 of bbolt's, in the byte order of the machine. Page:
// id u64, flags u16, count u16, overflow u32, then count elements of 16 bytes,
// then what these point at, relative to themselves. Branch element: position
// u32, key size u32, page u64. Leaf element: flags u32, position u32, key size
// u32, value size u32.
const (
	pageHeader    = 16
	elementSize   = 16
	bucketHeader  = 16 // root page u64, 0 for a bucket inline in its value; sequence u64
	branchPage    = 0x01
	leafPage      = 0x02
	freelistPage  = 0x10
	bucketElement = 0x01
	longList      = 0xFFFF // a freelist's count when the first entry holds the true one
)

// walker visits every page of a database once.
type walker struct {
	file     io.ReaderAt
	pageSize uint64
	seen     []bool // by page number: free, or reached
}

// page is one page's header.
type page struct {
	id, extent   uint64 // extent: its bytes, with those of its overflow pages
	flags, count uint16
}

// Verify walks the pages of the transaction that db would read, which its file has.
func Verify(db *bbolt.DB, file *os.File) error {
	var txid uint64
	if err := db.View(func(b *bbolt.Tx) error { txid = uint64(b.ID()); return nil }); err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	w := &walker{file: file, pageSize: uint64(db.Info().PageSize)}
	return w.walk(txid%2, uint64(info.Size()))
}

// walk starts from a meta page, which bbolt has found valid.
func (w *walker) walk(meta, size uint64) error {
	b, err := w.read(meta*w.pageSize+pageHeader, 48)
	if err != nil {
		return err
	}
	root, freelist, high := word(b[16:]), word(b[32:]), word(b[40:])
	if high < 2 || high > size/w.pageSize {
		return fmt.Errorf("it is truncated: %d bytes of %d pages of %d", size, high, w.pageSize)
	}
	w.seen = make([]bool, high)
	w.seen[0], w.seen[1] = true, true
	if err := w.free(freelist); err != nil {
		return err
	}
	return w.tree(root)
}

// visit reads a page's header and marks it and its overflow pages as seen.
func (w *walker) visit(id uint64) (page, error) {
	if id >= uint64(len(w.seen)) {
		return page{}, fmt.Errorf("page %d lies beyond its %d pages", id, len(w.seen))
	}
	b, err := w.read(id*w.pageSize, pageHeader)
	if err != nil {
		return page{}, err
	}
	overflow := uint64(binary.NativeEndian.Uint32(b[12:]))
	p := page{id: id, extent: (overflow + 1) * w.pageSize,
		flags: binary.NativeEndian.Uint16(b[8:]), count: binary.NativeEndian.Uint16(b[10:])}
	if word(b) != id || overflow >= uint64(len(w.seen))-id {
		return page{}, fmt.Errorf("page %d has a broken header", id)
	}
	for i := id; i <= id+overflow; i++ {
		if err := w.mark(i); err != nil {
			return page{}, err
		}
	}
	return p, nil
}

func (w *walker) mark(id uint64) error {
	if id >= uint64(len(w.seen)) || w.seen[id] {
		return fmt.Errorf("page %d is used twice, or is none", id)
	}
	w.seen[id] = true
	return nil
}

// free marks the free pages.
func (w *walker) free(id uint64) error {
	p, err := w.visit(id)
	if err != nil {
		return err
	}
	count, from := uint64(p.count), id*w.pageSize+pageHeader
	if count == longList {
		b, err := w.read(from, 8)
		if err != nil {
			return err
		}
		count, from = word(b), from+8
	}
	if p.flags != freelistPage || count > (p.extent-pageHeader)/8 {
		return fmt.Errorf("page %d is no list of free pages", id)
	}
	b, err := w.read(from, count*8)
	if err != nil {
		return err
	}
	for ; len(b) > 0; b = b[8:] {
		if err := w.mark(word(b)); err != nil {
			return err
		}
	}
	return nil
}

// tree walks a bucket from its root page.
func (w *walker) tree(id uint64) error {
	p, err := w.visit(id)
	if err != nil {
		return err
	}
	if uint64(p.count)*elementSize > p.extent-pageHeader {
		return fmt.Errorf("page %d has a broken header", id)
	}
	elements, err := w.read(id*w.pageSize+pageHeader, uint64(p.count)*elementSize)
	if err != nil {
		return err
	}
	switch {
	case p.flags == leafPage:
		return w.leaf(p, elements)
	case p.flags == branchPage && p.count > 0:
		return w.branch(p, elements)
	}
	return fmt.Errorf("page %d is neither branch nor leaf", id)
}

func (w *walker) branch(p page, elements []byte) error {
	for i := 0; i < len(elements); i += elementSize {
		e := elements[i:]
		if uint64(pageHeader+i)+half(e)+half(e[4:]) > p.extent {
			return fmt.Errorf("page %d has a key beyond its end", p.id)
		}
		if err := w.tree(word(e[8:])); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) leaf(p page, elements []byte) error {
	for i := 0; i < len(elements); i += elementSize {
		e := elements[i:]
		value := uint64(pageHeader+i) + half(e[4:]) + half(e[8:])
		size := half(e[12:])
		if value+size > p.extent {
			return fmt.Errorf("page %d has a value beyond its end", p.id)
		}
		if half(e)&bucketElement == 0 {
			continue
		}
		if err := w.bucket(p.id*w.pageSize+value, size); err != nil {
			return err
		}
	}
	return nil
}

// bucket walks the bucket whose entry is the size bytes at from.
func (w *walker) bucket(from, size uint64) error {
	if size < bucketHeader {
		return fmt.Errorf("a bucket has no header")
	}
	b, err := w.read(from, min(size, w.pageSize))
	if err != nil {
		return err
	}
	if root := word(b); root != 0 {
		return w.tree(root)
	}
	inline := b[bucketHeader:]
	if len(inline) < pageHeader || binary.NativeEndian.Uint16(inline[8:]) != leafPage {
		return fmt.Errorf("an inline bucket is no leaf")
	}
	p := page{extent: uint64(len(inline)), count: binary.NativeEndian.Uint16(inline[10:])}
	if uint64(p.count)*elementSize > p.extent-pageHeader {
		return fmt.Errorf("an inline bucket has a broken header")
	}
	elements := inline[pageHeader:][:int(p.count)*elementSize]
	for i := 0; i < len(elements); i += elementSize {
		if half(elements[i:])&bucketElement != 0 {
			return fmt.Errorf("an inline bucket holds a bucket")
		}
	}
	return w.leaf(p, elements)
}

func (w *walker) read(at, n uint64) ([]byte, error) {
	b := make([]byte, n)
	if _, err := w.file.ReadAt(b, int64(at)); err != nil {
		return nil, fmt.Errorf("it ends too early: %w", err)
	}
	return b, nil
}

func word(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }

// half reads a 32-bit number, as 64 bits so that sums cannot overflow.
func half(b []byte) uint64 { return uint64(binary.NativeEndian.Uint32(b)) }
