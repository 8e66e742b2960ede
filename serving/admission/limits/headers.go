package limits

import (
	"bytes"
	"net/http"
)

const (
	// freeHeader is how much of a header needs no memory to be left.
	freeHeader = 8 << 10
	// fieldMemory is what a field of a header occupies in addition to its text: a key of a map, a
	// list of values, and the headers of their texts.
	fieldMemory = 128
	// hiddenFields is what a byte of an encrypted header may come to, beyond freeHeader: as
	// of fields of some ten bytes.
	hiddenFields = fieldMemory / 10
)

// costOf is the memory that a piece of a header comes to. What follows its end is a body.
func (c *Conn) costOf(piece []byte) int64 {
	if c.encrypted {
		if free := freeHeader - c.header.Load(); int64(len(piece)) > free {
			return max(0, free) + hiddenFields*(int64(len(piece))-max(0, free))
		}
		return int64(len(piece))
	}
	header := piece
	if end := bytes.Index(piece, []byte("\r\n\r\n")); end >= 0 {
		header = piece[:end]
	}
	return int64(len(piece) + fieldMemory*bytes.Count(header, []byte("\n")))
}

// Hold charges what a header that has been read is kept in, where the connection does not
// show it: it is encrypted, or carries many requests at once. It returns what is to be given
// to [Limiter.Release] when the request ends; false if there is no room.
func (l *Limiter) Hold(h http.Header) (held int64, ok bool) {
	cost := int64(-freeHeader)
	for name, values := range h {
		for _, v := range values {
			cost += int64(len(name) + len(v) + fieldMemory)
		}
	}
	if cost <= 0 {
		return 0, true
	}
	if l.headers.Add(cost) > l.mostHeaders.Load() {
		l.headers.Add(-cost)
		l.overHeaders.Add(1)
		return 0, false
	}
	return cost, true
}

// Release gives back what Hold charged.
func (l *Limiter) Release(held int64) { l.headers.Add(-held) }
