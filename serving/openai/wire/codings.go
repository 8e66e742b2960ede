package wire

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"strings"
)

// This file undoes the compressions of bodies that HTTP knows as content codings.

// CodingMemory bounds the bytes that undoing a compression takes, about.
const CodingMemory = 48 << 10

// CodingOf returns the coding that a header lists; empty if the body is as it is. It reports false if
// that is unknown, or if there are several, one upon another.
func CodingOf(values []string) (coding string, ok bool) {
	for one := range strings.SplitSeq(strings.Join(values, ","), ",") {
		switch one = strings.ToLower(strings.TrimSpace(one)); {
		case one == "" || one == "identity":
		case coding == "" && (one == "gzip" || one == "x-gzip" || one == "deflate"):
			coding = one
		default:
			return "", false
		}
	}
	return coding, true
}

// CorruptError is returned by [Reader.Read] where the body is not what its coding says.
type CorruptError struct {
	Coding string
	Err    error
}

// Error implements error.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("the body is no whole %s: %v", e.Coding, e.Err)
}

// CodedReader undoes the compression of a body as it comes: what its sender has flushed can be read at
// once. It begins with the first Read.
type CodedReader struct {
	from   source
	coding string
	text   io.Reader // once the first of the body has come
	err    error
}

// source holds what the body is read from, and the error at which that ended.
type source struct {
	io.ReadCloser
	err error
}

// Read implements [io.Reader].
func (s *source) Read(p []byte) (n int, err error) {
	n, err = s.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// NewCodedReader undoes a coding of [CodingOf].
func NewCodedReader(body io.ReadCloser, coding string) *CodedReader {
	return &CodedReader{from: source{ReadCloser: body}, coding: coding}
}

// Read implements [io.Reader]. Its errors are those of the body itself, or a [CorruptError].
func (d *CodedReader) Read(p []byte) (n int, err error) {
	if d.text == nil && d.err == nil {
		d.text, d.err = d.open()
	}
	if err = d.err; err == nil {
		n, err = d.text.Read(p)
	}
	if err == io.EOF && d.err == nil {
		// The end of the body itself gives its connection back.
		_, _ = io.CopyN(io.Discard, &d.from, 1)
		return n, err
	}
	if err != nil {
		if d.from.err != nil {
			return n, d.from.err
		}
		return n, &CorruptError{d.coding, err}
	}
	return n, nil
}

// Close implements [io.Closer].
func (d *CodedReader) Close() error { return d.from.Close() }

func (d *CodedReader) open() (io.Reader, error) {
	if d.coding != "deflate" {
		return gzip.NewReader(&d.from)
	}
	// It should have the frame of zlib, and of some senders has none.
	in := bufio.NewReader(&d.from)
	if head, err := in.Peek(2); err == nil && head[0]&0xf == 8 && (uint(head[0])<<8|uint(head[1]))%31 == 0 {
		return zlib.NewReader(in)
	}
	return flate.NewReader(in), nil
}
