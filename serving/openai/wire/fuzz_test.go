package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
)

// bodies are requests that the fuzzers start from.
var bodies = []string{
	`{"model":"auto","messages":[{"role":"user","content":"hi"}]}`,
	`{"model":"a","model":"b","metadata":{"task":"t"},"prompt":[1,"x",[2]]}`,
	`{"messages":[{"role":"user","content":[{"type":"text","text":"a b"},{"type":"image_url","image_url":{"url":"data:x"}}]}],"model":"auto","stream":true}`,
	"{\"prompt\":\"a\\nb \\u0020 \\\\\\\" \xc3\xa9\",\"model\" :\t\"\\u0061uto\" , \"metadata\" : null}",
	`{"model":null}`, `{"model":7}`, `{"metadata":[]}`, `[]`, `{}`, ``, `{"model":"x"} {}`, `{"a":{"model":"inner"}}`,
	`{"prompt":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`,
	"{\"\\u006dodel\":\"auto\"}", "{\"model\":\"\xff\"}", `{"n":1e999,"model":"auto"}`,
}

// FuzzParseRequest holds that what passes is a JSON object, and that nothing but
// the model changes with another model's name in it.
func FuzzParseRequest(f *testing.F) {
	for _, b := range bodies {
		f.Add([]byte(b), "other")
	}
	f.Add([]byte(bodies[1]), "a \"quoted\"\n\xff name")
	f.Fuzz(func(t *testing.T, b []byte, name string) {
		before := bytes.Clone(b)
		r, err := ParseRequest(b)
		var object map[string]json.RawMessage
		if (json.Unmarshal(b, &object) != nil || object == nil) && err == nil {
			t.Fatalf("%q passes", b)
		}
		if err != nil {
			describes(t, b, err)
			return
		}
		tokens := r.Prompt().Tokens()
		var turns Turns
		if r.Turns(&turns); turns.length() > len(b) {
			t.Errorf("%q has %d bytes of text", b, turns.length())
		}
		out := []byte(read(r.For(name, Cut{})))
		if !bytes.Equal(b, before) {
			t.Fatalf("%q became %q", before, b)
		}
		again, err := ParseRequest(out)
		if err != nil {
			t.Fatalf("%q with the model %q: %v", b, name, err)
		}
		// JSON has no text that is not UTF-8.
		if len(r.models) > 0 && again.Model != string([]rune(name)) {
			t.Errorf("%q: the model is %q, want %q", b, again.Model, name)
		}
		if again.Task != r.Task || again.Prompt().Tokens() != tokens || len(again.models) != len(r.models) {
			t.Errorf("%q with another model is %q", b, out)
		}
		if a, b := without(r), without(again); a != b {
			t.Errorf("beside the model %q became %q", a, b)
		}
	})
}

// without is the body with a mark in the place of each model.
func without(r *Request) string {
	var out strings.Builder
	last := 0
	for _, at := range r.models {
		out.Write(r.Body[last:at.start])
		out.WriteString("\x00")
		last = at.end
	}
	out.Write(r.Body[last:])
	return out.String()
}

// describes holds that the error is one for a client.
func describes(t *testing.T, b []byte, err error) {
	t.Helper()
	var e Error
	if !errors.As(err, &e) || e.Message == "" || e.Type == "" || e.Code == "" || !json.Valid(e.JSON()) {
		t.Errorf("%q: the error %#v", b, err)
	}
}

// FuzzDecode holds that Decode takes what the decoder does, and says why not.
func FuzzDecode(f *testing.F) {
	for _, b := range bodies {
		f.Add([]byte(b), true)
	}
	for _, b := range []string{`{"task":"t","count":3}`, `{"count":"x"}`, `{"count":1.5}`, `{"list":{}}`, `{"deep":{"on":1}}`, `{"other":1}`, `{"task":1} x`, `{"count":1e99}`} {
		f.Add([]byte(b), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, strict bool) {
		type shape struct {
			Task  string   `json:"task"`
			Count *int     `json:"count"`
			List  []string `json:"list"`
			Deep  struct {
				On bool `json:"on"`
			} `json:"deep"`
		}
		var got, want shape
		err := Decode(b, &got, strict)
		if err != nil {
			describes(t, b, err)
		}
		if plain := json.Unmarshal(b, &want); (plain == nil) != (err == nil) && !(strict && plain == nil) {
			t.Errorf("%q: %v, by the decoder itself %v", b, err, plain)
		}
	})
}

// FuzzPromptTokens holds that the estimate is bounded by the text, its marks and its media,
// whatever the text is.
func FuzzPromptTokens(f *testing.F) {
	for _, s := range bodies {
		f.Add([]byte(s))
	}
	for _, s := range []string{
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"low"}},{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}]}]}`,
		`{"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"a\":1}"}}]}]}`,
		`{"input":[[1,2],[3]],"instructions":"\u8bf7\ud83d\ude00"}`, `{"query":"q","documents":["a",{"text":"b"}]}`, `{"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"x"}]}]}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p := PromptOf(b)
		marks := len(b)*messageMarks + messageMarks + answerMarks + 2*toolMarks
		documents := 1 + bytes.Count(b, []byte(",")) // of which each is read with the query
		if p.Text < 0 || p.Text > len(b)*documents || p.Media < 0 || p.IDs < 0 || p.IDs > len(b) || p.Marks < 0 || p.Marks > marks || p.Media > videoShare*len(b) {
			t.Errorf("%q: %+v", b, p)
		}
	})
}

// FuzzStripHop holds that nothing is left that concerns two neighbours alone, or that
// is also to go.
func FuzzStripHop(f *testing.F) {
	f.Add("keep-alive, X-Secret", "chunked")
	f.Add(" ,,x-a ,X-A", "")
	f.Add("close,\x00", "te")
	f.Fuzz(func(t *testing.T, connection, value string) {
		h := http.Header{"Connection": {connection, "close"}, "Te": {value}, "X-Kept": {value}, "X-Secret": {value}, "X-Own": {value}}
		StripHop(h, func(name string) bool { return name == "X-Own" })
		for name := range h {
			if name != "X-Kept" && name != "X-Secret" {
				t.Errorf("Connection: %q leaves %s", connection, name)
			}
		}
		for name := range strings.SplitSeq(connection, ",") {
			if _, ok := h[http.CanonicalHeaderKey(strings.TrimSpace(name))]; ok {
				t.Errorf("Connection: %q leaves %q", connection, name)
			}
		}
	})
}

func (t *Turns) length() (n int) {
	for _, part := range t.Parts {
		n += len(part)
	}
	return n
}
