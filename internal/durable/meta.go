package durable

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
)

// A database has two meta pages, and transactions write them in turn: the one with the
// number T writes page T modulo 2. bbolt reads the whole one with the highest number, and is
// silent about the other. So a meta page that is damaged may have been the last
// transaction's, which is lost then.
//
// Meta page, after its header: magic u32, version u32, page size u32, flags u32, root u64
// and u64, freelist u64, pages u64, transaction u64, checksum u64 of all before (FNV-1a).
const (
	metaMagic  = 0xED0CDAED
	metaSum    = 56 // where the checksum stands
	metaNumber = 48 // where the transaction's number does
)

// metaPage is what is known of one.
type metaPage struct {
	whole  bool
	number uint64 // of its transaction; means little if it is not whole
}

// metaPages reads both.
func metaPages(file io.ReaderAt, pageSize int) (pages [2]metaPage) {
	for i := range pages {
		b := make([]byte, metaSum+8)
		if _, err := file.ReadAt(b, int64(i*pageSize)+pageHeader); err != nil {
			continue
		}
		sum := fnv.New64a()
		sum.Write(b[:metaSum])
		pages[i] = metaPage{
			whole:  binary.NativeEndian.Uint32(b) == metaMagic && sum.Sum64() == word(b[metaSum:]),
			number: word(b[metaNumber:]),
		}
	}
	return pages
}

// Lost returns what a damaged meta page means; empty if none is. Noun is what the database is, and last
// what its last transaction may have been.
func Lost(file io.ReaderAt, pageSize int, noun, last string) string {
	pages := metaPages(file, pageSize)
	for i, p := range pages {
		other := pages[1-i]
		if p.whole || !other.whole {
			continue
		}
		next := other.number + 1
		what := fmt.Sprintf("what transaction %d changed, if there was one, is lost: %s", next, last)
		switch p.number {
		case next:
			what = fmt.Sprintf("transaction %d is lost: %s", next, last)
		case other.number - 1:
			what = "it seems to be the older page, so nothing is lost"
		}
		return fmt.Sprintf("meta page %d of 2 is damaged; %s is as transaction %d left it, and %s", i+1, noun, other.number, what)
	}
	return ""
}
