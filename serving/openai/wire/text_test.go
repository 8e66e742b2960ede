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
		if err := iotest.TestReader(newText(nil, pieces...), want); err != nil {
			t.Error(err)
		}
		text := newText(nil, pieces...)
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

// taken is a Buffer with a text in it.
func taken(text string) *Buffer {
	b := NewBuffer(len(text))
	copy(b.Bytes(), text)
	return b
}

func TestTextHoldsItsBuffer(t *testing.T) {
	b := taken("first")
	text := newText(b, b.Bytes())
	again := text.Again()
	b.Release()
	other := taken("other")
	if got := read(text); got != "first" {
		t.Errorf("the text became %q", got)
	}
	for range 2 { // a second Close changes nothing
		if err := text.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := text.Read(make([]byte, 1)); err != errTextClosed {
		t.Errorf("a closed text: %v", err)
	}
	if got := read(again); got != "first" {
		t.Errorf("the text became %q", got)
	}
	again.Close()
	other.Release()
	if b.holders.Load() != 0 || other.holders.Load() != 0 {
		t.Errorf("%d and %d still hold", b.holders.Load(), other.holders.Load())
	}
}

// Who comes after the request's end must not see what is another's by then.
func TestTextOfWhatIsGone(t *testing.T) {
	for range 100 { // memory comes back at some time, or never
		b := taken("first")
		closed := newText(b, b.Bytes())
		closed.Close()
		b.Release()
		next := taken("other")
		for _, late := range []*Text{closed.Again(), newText(b, b.Bytes()), newText(b, b.Bytes()).Again()} {
			var w bytes.Buffer
			n, err := late.WriteTo(&w)
			if _, also := late.Read(make([]byte, 9)); n != 0 || err != errTextGone || also != errTextGone || late.Len() != 5 {
				t.Fatalf("%d bytes, %v, %v", n, err, also)
			}
			late.Close()
		}
		if next.holders.Load() != 1 {
			t.Fatalf("%d hold what is another's", next.holders.Load())
		}
		next.Release()
	}
}

func TestBuffers(t *testing.T) {
	for _, size := range []int{0, 1, 2, 3, 4, 5, 1023, 1024, 1025, 1 << longest, 1<<longest + 1} {
		for range 3 {
			b := NewBuffer(size)
			if len(b.Bytes()) != size {
				t.Errorf("%d bytes, want %d", len(b.Bytes()), size)
			}
			b.Release()
		}
	}
	b := Wrap([]byte("ab"))
	b.Release()
	if b.hold() {
		t.Error("held after its end")
	}
}
