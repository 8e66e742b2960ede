package wire

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func passes(b []byte) bool {
	c := checker{text: b}
	return c.whole()
}

func TestValidJSON(t *testing.T) {
	for _, text := range []string{
		``, ` `, `{}`, `[]`, ` [ ] `, `{"a":1}`, `{"a":1,}`, `{,}`, `[1,]`, `[,1]`, `[1 2]`, `{"a" 1}`, `{"a":}`, `{1:2}`, `[}`, `{]`,
		`[1]]`, `[[1]`, `{"a":[{"b":[]},{}]}`, `"`, `"a`, `"a"`, `"a\"`, `"\u00e9"`, `"\u00g9"`, `"\u00e"`, `"\x"`, "\"\n\"", "\"\x1f\"", "\"\x7f\"",
		"\"\x80\xff\"", `0`, `-0`, `-`, `00`, `01`, `1.`, `.5`, `1.5`, `1e`, `1e+`, `1E-9`, `1e5.`, `+1`, `1x`, `true`, `tru`, `truex`, `null`, `false`,
		`nul`, `[true,false,null]`, `1 1`, `{} {}`, "\ufeff{}", "{\"a\":1}\x00", `["` + strings.Repeat("long and plain ", 9) + `"]`,
		`["` + strings.Repeat("x", 13) + "\x01" + `"]`, "\v1", "1\t\r\n", strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth),
		strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1), strings.Repeat(`{"a":`, maxDepth) + "1" + strings.Repeat("}", maxDepth),
		strings.Repeat("[", maxDepth-1) + "{}" + strings.Repeat("]", maxDepth-1), strings.Repeat("[", maxDepth) + "{}" + strings.Repeat("]", maxDepth),
	} {
		if got := passes([]byte(text)); got != json.Valid([]byte(text)) {
			t.Errorf("%.60q: %v", text, got)
		}
	}
}

// FuzzValidJSON holds our reading of JSON against the standard library's.
func FuzzValidJSON(f *testing.F) {
	f.Add([]byte(`{"model":"auto","messages":[{"role":"user","content":"h\u00e9llo \n"}],"n":-1.5e+3,"x":[null,true,{}]}`))
	f.Add([]byte(`[[[[{"a":[1,2,{"b":"\\\""}]}]]]]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got := passes(b); got != json.Valid(b) {
			t.Errorf("%q: %v", b, got)
		}
	})
}

// BenchmarkParse is what the router reads of a request with a long prompt.
func BenchmarkParse(b *testing.B) {
	for _, size := range []int{1 << 10, 10 << 10, 220 << 10} {
		body := []byte(`{"model":"auto","messages":[{"role":"user","content":"` + strings.Repeat("the gear turns ", size/15) + `\n"}]}`)
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				r, err := ParseRequest(body)
				if err != nil {
					b.Fatal(err)
				}
				if r.Prompt().Tokens() == 0 {
					b.Fatal("no tokens")
				}
			}
		})
	}
}

// FuzzWords holds the count against one byte by byte.
func FuzzWords(f *testing.F) {
	f.Add(`one two  three\nfour\tfive \\n \" and \u0020 so on,  with more of it  `)
	f.Fuzz(func(t *testing.T, text string) {
		quoted, _ := json.Marshal(text)
		for _, b := range [][]byte{quoted, []byte(`"` + text + `"`)} {
			want, inside := 0, false
			for i := 1; i < len(b)-1; i++ {
				space := b[i] == ' '
				if b[i] == '\\' && i+1 < len(b)-1 {
					i++
					space = b[i] == 'n' || b[i] == 't' || b[i] == 'r'
				}
				if !space && !inside {
					want++
				}
				inside = !space
			}
			if got, ok := words(b); !ok || got != want {
				t.Errorf("%q: %d words, want %d", b, got, want)
			}
		}
	})
}

// What is kept of long strings has to be what reading them again would tell.
func TestLongStringsAreReadOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"word ", "  ", `\n`, `\"`, `\\`, `\u0020`, "é", ", ", `\t\t`}
	for range 300 {
		var texts [3]strings.Builder
		for i := range texts {
			for size := random.IntN(3 * longFrom); texts[i].Len() < size; {
				texts[i].WriteString(pieces[random.IntN(len(pieces))])
			}
		}
		body := fmt.Sprintf(`{"a":"%s","model":"m","messages":[{"content":"%s"},{"content":[{"text":"%s"}]}],"stream":true}`, &texts[0], &texts[1], &texts[2])
		r, err := ParseRequest([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := r.Prompt().Tokens(), PromptOf(r.Body).Tokens(); got != want || !r.Stream || r.Model != "m" {
			t.Fatalf("%s: %d tokens, want %d", body, got, want)
		}
	}
}
