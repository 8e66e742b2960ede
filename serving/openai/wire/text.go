package wire

import (
	"errors"
	"io"
	"sync"

	"gearshift/serving/openai/tokens"
)

// Text is a request's body in pieces, to be read once. It holds the Buffer that
// they are in until it is closed, and reads nothing after that, also if it is
// closed within a Read.
type Text struct {
	pieces [][]byte
	buffer *Buffer // nil: the pieces are its own

	mu   sync.Mutex // protects all below
	next int        // the piece to go on with
	at   int        // and where in it
	err  error      // why nothing can be read
}

// What reading a Text fails with that is closed, or whose request is over.
var (
	errTextClosed = errors.New("the request's body has been closed")
	errTextGone   = errors.New("the request is over, and its body gone")
)

func newText(buffer *Buffer, pieces ...[]byte) *Text {
	t := &Text{pieces: pieces, buffer: buffer}
	if buffer != nil && !buffer.hold() {
		t.buffer, t.err = nil, errTextGone
	}
	return t
}

// Len is the number of bytes in all, read or not.
func (t *Text) Len() (n int64) {
	for _, piece := range t.pieces {
		n += int64(len(piece))
	}
	return n
}

// Again is the same text from its start.
func (t *Text) Again() *Text {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == errTextGone {
		return &Text{pieces: t.pieces, err: t.err}
	}
	return newText(t.buffer, t.pieces...)
}

// Read implements [io.Reader].
func (t *Text) Read(p []byte) (n int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return 0, t.err
	}
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
	t.mu.Lock()
	defer t.mu.Unlock()
	for ; t.err == nil && t.next < len(t.pieces); t.next, t.at = t.next+1, 0 {
		written, err := w.Write(t.pieces[t.next][t.at:])
		n += int64(written)
		t.at += written
		if err != nil {
			return n, err
		}
	}
	return n, t.err
}

// Close implements [io.Closer].
func (t *Text) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = errTextClosed
		if t.buffer != nil {
			t.buffer.release()
		}
	}
	return nil
}

// spokenTokens is the estimated length of the text of messages, or of items of the
// Responses API: that of an answer whose engine does not report it.
func spokenTokens(value []byte) (sum int) {
	Elements(value, func(item []byte) { sum += messageTokens(item) })
	return sum
}

func messageTokens(message []byte) (sum int) {
	Members(message, func(key []byte, start, end int) bool {
		if string(key) == "content" {
			sum += contentTokens(message[start:end])
		}
		return true
	})
	return sum
}

// contentTokens is the estimated length of a string, or of the text in a list of parts.
func contentTokens(value []byte) (sum int) {
	if n, ok := length(value); ok {
		return n
	}
	Elements(value, func(part []byte) {
		Members(part, func(key []byte, start, end int) bool {
			if string(key) == "text" {
				n, _ := length(part[start:end])
				sum += n
			}
			return true
		})
	})
	return sum
}

// length is the estimated length of a JSON string.
func length(b []byte) (n int, ok bool) {
	if len(b) < 2 || b[0] != '"' {
		return 0, false
	}
	return tokens.JSON(b[1 : len(b)-1]), true
}

// words counts the words of a JSON string without decoding it.
func words(b []byte) (sum int, ok bool) {
	if len(b) < 2 || b[0] != '"' {
		return 0, false
	}
	inside := false
	for b = b[1 : len(b)-1]; ; b = b[1:] {
		n, begun, within, _ := plain(b, inside)
		sum += begun
		if n == len(b) {
			return sum, true
		}
		space := false
		if b = b[n:]; b[0] == '\\' && len(b) > 1 {
			b = b[1:]
			space = blank(b[0])
		}
		if !space && !within {
			sum++
		}
		inside = !space
	}
}
