package wire

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// plainSlowly is plain, by its words.
func plainSlowly(b []byte, inside bool) (n, begun int, within, ascii bool) {
	ascii = true
	for n < len(b) && b[n] != '"' && b[n] != '\\' && b[n] >= ' ' {
		if b[n] != ' ' && !inside {
			begun++
		}
		inside = b[n] != ' '
		ascii = ascii && b[n] < 0x80
		n++
	}
	return n, begun, inside, ascii
}

// What ends plain text, at each place among other bytes.
func TestPlainEnds(t *testing.T) {
	for _, mark := range []byte{'"', '\\', 0, '\n', 0x1f} {
		for at := range 100 {
			for _, other := range []byte{'a', ' ', '!', '#', '[', ']', 0x7f, 0x80, 0x9f, 0xa2, 0xdc, 0xff} {
				text := bytes.Repeat([]byte{other}, 100)
				text[at] = mark
				if n, _, _, _ := plain(text, false); n != at {
					t.Fatalf("%q: %d, want %d", text, n, at)
				}
				if n, _, _, _ := plainWords(text, false); n != at/8*8 {
					t.Fatalf("%q: %d in eights, want %d", text, n, at/8*8)
				}
			}
		}
	}
}

// Texts of all lengths, mostly plain, read in both ways.
func TestPlainWords(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 20_000 {
		text := make([]byte, random.IntN(200))
		for i := range text {
			text[i] = "aaaaaaaaaaaaaaaaaaaaa   \xe9\x80!"[random.IntN(27)]
			if random.IntN(150) == 0 {
				text[i] = byte(random.Uint32())
			}
		}
		n, begun, inside, ascii := plain(text, round%2 == 0)
		if got, want := fmt.Sprint(n, begun, inside, ascii), fmt.Sprint(plainSlowly(text, round%2 == 0)); got != want {
			t.Fatalf("%q: bytes, words, within, ASCII: %s, want %s", text, got, want)
		}
		n, begun, inside, ascii = plainWords(text, round%2 == 0)
		if got, want := fmt.Sprint(n, begun, inside, ascii), fmt.Sprint(plainSlowly(text[:n], round%2 == 0)); got != want {
			t.Fatalf("%q in eights: bytes, words, within, ASCII: %s, want %s", text, got, want)
		}
	}
}
