package quality

import (
	"slices"
	"strings"
	"testing"
)

func read(key uint64, parts ...string) Sample {
	var f Features
	p := Prompt{Turns: len(parts)}
	for _, part := range parts {
		p.Parts = append(p.Parts, []byte(part))
	}
	f.Read(&p, key)
	return f.Clone()
}

func TestWordsAreReadWithoutCase(t *testing.T) {
	if a, b := read(1, "The River"), read(1, "the river"); !slices.Equal(a.IDs, b.IDs) {
		t.Errorf("%v and %v; want the same words", a.IDs, b.IDs)
	}
	if a, b := read(1, "the river"), read(1, "river the"); slices.Equal(a.IDs, b.IDs) {
		t.Error("the pair of two words does not depend on their order")
	}
	if a, b := read(1, "the river"), read(2, "the river"); slices.Equal(a.IDs, b.IDs) {
		t.Error("words have the same buckets under two keys")
	}
}

func TestPairsEndWithTheirPart(t *testing.T) {
	if a := read(1, "one", "two"); len(a.IDs) != 2 {
		t.Errorf("two turns of a word have %d buckets; want 2", len(a.IDs))
	}
	if a := read(1, "one two"); len(a.IDs) != 3 {
		t.Errorf("two words have %d buckets; want them and their pair", len(a.IDs))
	}
}

func TestScriptsWithoutSpaces(t *testing.T) {
	if a := read(1, "東京都"); len(a.Words) != 3 {
		t.Errorf("three characters are %d words", len(a.Words))
	}
	for _, word := range []string{"größe", "привет", "Été"} {
		if a := read(1, word); len(a.Words) > 2 {
			t.Errorf("%q is %d words", word, len(a.Words))
		}
	}
}

func TestLongPromptsAreSampled(t *testing.T) {
	middle := strings.Repeat("x", 100_000)
	a := read(1, strings.Repeat("begin ", readHead/6)+middle+strings.Repeat(" ending", readTail/7))
	b := read(1, "begin", "ending")
	for _, w := range b.Words {
		if !slices.Contains(a.Words, w) {
			t.Error("a long prompt is read without its beginning or its end")
		}
	}
	if len(a.IDs) > 8 {
		t.Errorf("its middle adds %d buckets", len(a.IDs))
	}
}

func TestFormsDiffer(t *testing.T) {
	code, prose := read(1, "func f(x int) { return a[x] & 7 }\n"), read(1, "Tell me about the sea, please.")
	if code.Form[formBrackets] <= prose.Form[formBrackets] || code.Form[formCode] <= prose.Form[formCode] {
		t.Error("code has no more brackets and signs than prose")
	}
}

// FuzzRead holds that whatever bytes are read have each bucket once, and read the same again.
func FuzzRead(f *testing.F) {
	f.Add("The River 300 km", "\xe6\x9d\xb1 \xff\xfe", uint64(1))
	f.Fuzz(func(t *testing.T, a, b string, key uint64) {
		var features Features
		p := Prompt{Parts: [][]byte{[]byte(a), []byte(b)}}
		features.Read(&p, key)
		first := features.Clone()
		features.Read(&p, key)
		if !slices.Equal(first.IDs, features.IDs) || !slices.Equal(first.Counts, features.Counts) {
			t.Fatal("the same prompt is read differently")
		}
		seen := map[uint16]bool{}
		for _, id := range first.IDs {
			if seen[id] {
				t.Fatalf("bucket %d is listed twice", id)
			}
			seen[id] = true
		}
	})
}

// FuzzDecode holds that no bytes make Decode fail other than by an error.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) { _, _ = Decode(data) })
}

func benchmarkRead(b *testing.B, size int) {
	words := "Which of the following statements about the economy of Portugal in 1998 is true (choose 2)? "
	p := Prompt{Parts: [][]byte{[]byte(strings.Repeat(words, size/len(words)+1)[:size])}, Turns: 1}
	var f Features
	b.ReportAllocs()
	for b.Loop() {
		f.Read(&p, 7)
	}
}

// go test -bench . -run '^$' ./router/quality
func BenchmarkRead1KB(b *testing.B)   { benchmarkRead(b, 1<<10) }
func BenchmarkRead10KB(b *testing.B)  { benchmarkRead(b, 10<<10) }
func BenchmarkRead100KB(b *testing.B) { benchmarkRead(b, 100<<10) }

func BenchmarkPredict(b *testing.B) {
	examples, _ := made(300, 13)
	m, _ := fit(b, examples)
	s := read(7, strings.Repeat("Which of the following statements about the economy of Portugal in 1998 is true? ", 12))
	scores := make([]float64, 2)
	b.ReportAllocs()
	for b.Loop() {
		m.Predict(&s, scores)
	}
}
