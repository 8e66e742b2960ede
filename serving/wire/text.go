package wire

import "io"

// Text is a request's body in pieces, to be read once.
type Text struct {
	pieces [][]byte
	next   int // the piece to go on with
	at     int // and where in it
}

func newText(pieces ...[]byte) *Text { return &Text{pieces: pieces} }

// Len is the number of bytes in all, read or not.
func (t *Text) Len() (n int64) {
	for _, piece := range t.pieces {
		n += int64(len(piece))
	}
	return n
}

// Again is the same text from its start.
func (t *Text) Again() *Text { return newText(t.pieces...) }

// Read implements [io.Reader].
func (t *Text) Read(p []byte) (n int, err error) {
	for ; t.next < len(t.pieces) && n < len(p); t.next, t.at = t.next+1, 0 {
		taken := copy(p[n:], t.pieces[t.next][t.at:])
		n += taken
		if t.at += taken; t.at < len(t.pieces[t.next]) {
			return n, nil
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// WriteTo implements [io.WriterTo].
func (t *Text) WriteTo(w io.Writer) (n int64, err error) {
	for ; t.next < len(t.pieces); t.next, t.at = t.next+1, 0 {
		written, err := w.Write(t.pieces[t.next][t.at:])
		n += int64(written)
		t.at += written
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// Close implements [io.Closer]; there is nothing to close.
func (t *Text) Close() error { return nil }
