package wire

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"
)

// read is the whole of a text.
func read(t *Text) string {
	b, err := io.ReadAll(t)
	if err != nil || int64(len(b)) != t.Len() {
		panic("a text is not as long as it says")
	}
	return string(b)
}

func TestText(t *testing.T) {
	for _, pieces := range [][][]byte{
		nil, {nil}, {[]byte("one")}, {[]byte("one"), nil, []byte(" two "), []byte("three"), nil},
	} {
		want := bytes.Join(pieces, nil)
		if err := iotest.TestReader(newText(pieces...), want); err != nil {
			t.Error(err)
		}
		text := newText(pieces...)
		head := make([]byte, min(4, len(want)))
		if _, err := io.ReadFull(text, head); err != nil {
			t.Fatal(err)
		}
		var rest bytes.Buffer
		if n, err := text.WriteTo(&rest); err != nil || string(head)+rest.String() != string(want) || n != int64(rest.Len()) {
			t.Errorf("%q, then %q (%d): %v; want %q", head, rest.String(), n, err, want)
		}
		if got := read(text.Again()); got != string(want) {
			t.Errorf("again %q, want %q", got, want)
		}
	}
}
