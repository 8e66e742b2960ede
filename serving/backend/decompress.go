package backend

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"strings"
)

// decompress undoes the compression of an answer that was asked for without. One that it does not
// know stays, and so does the header that names it.
func decompress(r *http.Response) {
	values := r.Header["Content-Encoding"]
	if len(values) == 0 || r.Body == nil || r.Body == http.NoBody {
		return
	}
	open := decompressor(strings.Join(values, ","))
	if open == nil {
		return
	}
	r.Body = &decoded{under: r.Body, open: open}
	r.Uncompressed = true
	r.Header.Del("Content-Encoding")
	r.Header.Del("Content-Length")
}

// decompressor finds what undoes the codings that the header lists; nil if that is not known, or
// nothing.
func decompressor(list string) (open func(io.Reader) (io.Reader, error)) {
	for coding := range strings.SplitSeq(list, ",") {
		switch coding = strings.ToLower(strings.TrimSpace(coding)); {
		case coding == "" || coding == "identity":
		case open != nil:
			return nil // several, one upon another
		case coding == "gzip" || coding == "x-gzip":
			open = func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }
		case coding == "deflate":
			open = inflate
		default:
			return nil
		}
	}
	return open
}

// inflate undoes deflate, which should have the frame of zlib, and of some servers has none.
func inflate(r io.Reader) (io.Reader, error) {
	in := bufio.NewReader(r)
	if head, err := in.Peek(2); err == nil && head[0]&0xf == 8 && (uint(head[0])<<8|uint(head[1]))%31 == 0 {
		return zlib.NewReader(in)
	}
	return flate.NewReader(in), nil
}

// decoded is a body whose compression is undone as it comes: what the server has flushed can be
// read at once.
type decoded struct {
	under io.ReadCloser
	open  func(io.Reader) (io.Reader, error)
	text  io.Reader // once the first of it has come
	err   error
}

// Read implements [io.Reader].
func (d *decoded) Read(p []byte) (int, error) {
	if d.text == nil && d.err == nil {
		d.text, d.err = d.open(d.under)
	}
	if d.err != nil {
		return 0, d.err
	}
	n, err := d.text.Read(p)
	if err == io.EOF {
		// The end of the body itself gives its connection back.
		_, _ = io.CopyN(io.Discard, d.under, 1)
	}
	return n, err
}

// Close implements [io.Closer].
func (d *decoded) Close() error { return d.under.Close() }
