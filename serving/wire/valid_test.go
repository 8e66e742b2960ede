package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

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
		if got, want := validJSON([]byte(text)), json.Valid([]byte(text)); got != want {
			t.Errorf("%.60q: %v, want %v", text, got, want)
		}
	}
}

// FuzzValidJSON holds our reading of JSON against the standard library's.
func FuzzValidJSON(f *testing.F) {
	f.Add([]byte(`{"model":"auto","messages":[{"role":"user","content":"h\u00e9llo \n"}],"n":-1.5e+3,"x":[null,true,{}]}`))
	f.Add([]byte(`[[[[{"a":[1,2,{"b":"\\\""}]}]]]]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, want := validJSON(b), json.Valid(b); got != want {
			t.Errorf("%q: %v, want %v", b, got, want)
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
				if r.PromptTokens() == 0 {
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
