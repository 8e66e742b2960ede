package wire_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gearshift/serving/openai/wire"
)

// textsOf are the texts of a body, each as text.
func textsOf(t testing.TB, body string) (turns wire.Turns, parts []string) {
	t.Helper()
	r, err := wire.ParseRequest([]byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	r.Turns(&turns)
	for _, p := range turns.Parts {
		parts = append(parts, string(p))
	}
	return turns, parts
}

func TestTurnsOfEachShape(t *testing.T) {
	for _, c := range []struct {
		body                string
		parts               []string
		turns, tools, media int
	}{
		{body: `{"messages":[{"role":"user","content":"one"},{"content":"two","role":"assistant"},{"role":"user","content":"three"}]}`, parts: []string{"one", "two", "three"}, turns: 3},
		{body: `{"messages":[{"content":"be brief","role":"system"},{"role":"developer","content":"x"},{"role":"user","content":"hello"}]}`, parts: []string{"hello"}, turns: 1},
		{body: `{"messages":[{"role":"user","content":[{"type":"text","text":"what is this?"},{"type":"image_url","image_url":{"url":"data:text"}}]}]}`, parts: []string{"what is this?"}, turns: 1, media: 1},
		{body: `{"messages":[{"role":"user","content":"sum"}],"tools":[{"type":"function"},{"type":"function"}]}`, parts: []string{"sum"}, turns: 1, tools: 2},
		{body: `{"prompt":"once upon"}`, parts: []string{"once upon"}, turns: 1},
		{body: `{"prompt":["a b","c"]}`, parts: []string{"a b", "c"}, turns: 2},
		{body: `{"prompt":[1,2,3]}`},
		{body: `{"prompt":[[1,2],[3]]}`},
		{body: `{"input":"hi","instructions":"be kind"}`, parts: []string{"hi"}, turns: 1},
		{body: `{"input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]},{"type":"function_call_output","call_id":"c","output":"7"}]}`, parts: []string{"hi", "7"}, turns: 2},
		{body: `{"system":"s","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"nested"}]}]}]}`, parts: []string{"nested"}, turns: 1},
		{body: `{"text":"classify me"}`, parts: []string{"classify me"}},
		{body: `{"query":"q","documents":["d"]}`, parts: []string{"q"}},
		{body: `{"input":"x","text":{"format":{"type":"text"}}}`, parts: []string{"x"}, turns: 1},
		{body: `{"messages":[{"role":"user","content":null},{"role":"user","content":""},{"role":"user"},7,null]}`, turns: 3},
		{body: `{"model":"m"}`},
	} {
		got, parts := textsOf(t, c.body)
		if !slices.Equal(parts, c.parts) || got.Count != c.turns || got.Tools != c.tools || got.Media != c.media {
			t.Errorf("%s:\n%q, %d turns, %d tools, %d media; want\n%q, %d, %d, %d", c.body, parts, got.Count, got.Tools, got.Media, c.parts, c.turns, c.tools, c.media)
		}
	}
}

// A text comes as its client wrote it, however the client's library escapes it.
func TestTurnsWithoutEscapes(t *testing.T) {
	for _, text := range []string{"a\nb\tc", `"quoted" and \ and /`, "héllo 你好 😀", "\u0001\u2028<&>", strings.Repeat("line\n", 2000)} {
		plain, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		ascii := new(strings.Builder) // as Python's json.dumps escapes
		for _, c := range string(plain) {
			switch {
			case c > 0xFFFF:
				fmt.Fprintf(ascii, `\u%04x\u%04x`, 0xd800+(c-0x10000)>>10, 0xdc00+(c-0x10000)&0x3ff)
			case c > 0x7f:
				fmt.Fprintf(ascii, `\u%04X`, c)
			default:
				ascii.WriteRune(c)
			}
		}
		for _, escaped := range []string{string(plain), ascii.String(), strings.ReplaceAll(string(plain), "/", `\/`)} {
			if _, parts := textsOf(t, `{"prompt":`+escaped+`}`); strings.Join(parts, "") != text {
				t.Errorf("%.60q is read as %.60q", escaped, parts)
			}
		}
	}
}

// Of what is too long the beginning and the end are read as they were written, and what is
// between keeps its length.
func TestLongTurns(t *testing.T) {
	const size = 300 << 10
	_, parts := textsOf(t, `{"prompt":"first\nline`+strings.Repeat(`x\n`, size/3)+`last\nline"}`)
	all := strings.Join(parts, "")
	if !strings.HasPrefix(all, "first\nlinex\nx\n") || !strings.HasSuffix(all, "x\nlast\nline") || len(all) < size*8/10 {
		t.Errorf("%d bytes: %.40q … %q", len(all), all, all[len(all)-20:])
	}
	var messages []string
	for i := range 1000 {
		messages = append(messages, fmt.Sprintf(`{"role":"user","content":"turn %d"}`, i))
	}
	turns, parts := textsOf(t, `{"messages":[`+strings.Join(messages, ",")+`]}`)
	if turns.Count != 1000 || len(parts) != 128 || parts[0] != "turn 0" || parts[63] != "turn 63" || parts[64] != "turn 936" || parts[127] != "turn 999" {
		t.Errorf("%d turns; the texts are %q", turns.Count, parts)
	}
}

// Reading the texts of a request allocates nothing once the memory for them is there.
func TestTurnsAllocateNothing(t *testing.T) {
	r, err := wire.ParseRequest([]byte(`{"messages":[{"role":"system","content":"x"},{"role":"user","content":[{"type":"text","text":"one\ntwo \u4f60"}]},{"role":"assistant","content":"three"}],"tools":[{}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var turns wire.Turns
	if n := testing.AllocsPerRun(100, func() { r.Turns(&turns) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
