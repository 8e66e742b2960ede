package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestParseRequest(t *testing.T) {
	for _, c := range []struct {
		name, body, model, task string
	}{
		{"plain", `{"model":"auto","stream":true,"metadata":{"task":"copa"}}`, "auto", "copa"},
		{"spaces", " {\n \"model\" :\t\"a/b\" , \"stream\":false }\n", "a/b", ""},
		{"nulls", `{"model":"m","metadata":null}`, "m", ""},
		{"null task", `{"model":"m","metadata":{"task":null,"x":1}}`, "m", ""},
		{"a task that is no text", `{"model":"m","metadata":{"task":3}}`, "m", ""},
		{"escapes", `{"\u006dodel":"\u006d\"","metadata":{"t\u0061sk":"\u00e9"}}`, `m"`, "é"},
		{"nested names do not count", `{"messages":[{"model":"x","stream":true}],"tools":{"model":"y"},"model":"m"}`, "m", ""},
		{"last of two counts", `{"model":"a","model":"b"}`, "b", ""},
		{"empty", `{}`, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := ParseRequest([]byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if r.Model != c.model || r.Task != c.task {
				t.Errorf("got model %q, task %q", r.Model, r.Task)
			}
		})
	}
}

func TestParseRequestFaults(t *testing.T) {
	for _, c := range []struct{ body, message, param string }{
		{"", "the body is empty", ""},
		{" \n", "the body is empty", ""},
		{`{"model":"auto",}`, "malformed JSON at line 1, column 17 (byte 16): invalid character '}'", ""},
		{"{\n \"model\": \"é\xff\"}", "line 2, column 14 (byte 15): the text is not UTF-8", ""},
		{"{\n \"model\": auto}", "line 2, column 11 (byte 12)", ""},
		{`{"model":"auto"`, "line 1, column 16 (byte 15): unexpected end of JSON input", ""},
		{`{"model":"auto"} {}`, "line 1, column 18 (byte 17)", ""},
		{`["auto"]`, "must be a JSON object", ""},
		{`"auto"`, "must be a JSON object", ""},
		{`{"model":7}`, `"model" must be a string`, "model"},
		{`{"model":null}`, `"model" must be a string`, "model"},
		{`{"metadata":[]}`, `"metadata" must be an object`, "metadata"},
	} {
		_, err := ParseRequest([]byte(c.body))
		var e Error
		if !errors.As(err, &e) {
			t.Errorf("%s: error %v is no wire error", c.body, err)
			continue
		}
		if !strings.Contains(e.Message, c.message) || string(e.Param) != c.param || e.Type != InvalidRequest {
			t.Errorf("%s:\n got %q, param %q\nwant %q, param %q", c.body, e.Message, e.Param, c.message, c.param)
		}
	}
}

func TestWithModelKeepsAllOtherBytes(t *testing.T) {
	// Number formats, unknown members, escapes, spaces and multimodal parts.
	const body = "{ \"temperature\": 1.0e-0,\n\t\"seed\":12345678901234567890, \"model\" : \"auto\" ,\"logit_bias\":{\"50256\":-100},\n" +
		`"messages":[{"role":"user","content":[{"type":"text","text":"caf\u00e9 \/ <b>"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA\/=="}}]}],"x":[ ]}`
	r, err := ParseRequest([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	got := read(r.For(`facebook/opt-6.7b`, Cut{}))
	if want := strings.Replace(body, `"auto"`, `"facebook/opt-6.7b"`, 1); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if string(r.Body) != body {
		t.Error("the original has changed")
	}
	if got := read(r.For("auto", Cut{})); got != body {
		t.Errorf("the same name changed the body: %s", got)
	}
}

// Each value of "model" is remembered, beyond what the body itself is charged for.
func TestModelsThatRepeatAreBounded(t *testing.T) {
	for n, fault := range map[int]bool{maxModels: false, maxModels + 1: true, 100_000: true} {
		_, object := ParseRequest([]byte("{" + strings.Repeat(`"model":"a",`, n-1) + `"model":"a"}`))
		part := "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\na\r\n"
		_, form := ParseForm([]byte(strings.Repeat(part, n)+"--b--\r\n"), "b")
		for _, err := range []error{object, form} {
			var e Error
			if (errors.As(err, &e) && e.Code == "repeated_member" && e.Param == "model") != fault {
				t.Errorf("%d models: %v", n, err)
			}
		}
	}
}

func TestWithModelLeavesNoOtherModel(t *testing.T) {
	r, err := ParseRequest([]byte(`{"model":"dear","a":1,"model":"cheap"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := read(r.For("cheap", Cut{})); got != `{"model":"cheap","a":1,"model":"cheap"}` {
		t.Errorf("got %s", got)
	}
}

func TestWhatARequestSays(t *testing.T) {
	for _, c := range []struct {
		body   string
		stream bool
		tokens int
	}{
		{`{"stream":true,"messages":[{"role":"user","content":"a b"}]}`, true, 2 + messageMarks + answerMarks},
		{`{"stream":false,"prompt":"a b c"}`, false, 3},
		{`{"input":"a b","instructions":"be brief"}`, false, 4 + messageMarks},
		{`{"input":["a b","c"],"instructions":null}`, false, 3},
		{`{"input":[{"role":"user","content":"a b"}]}`, false, 2 + messageMarks + answerMarks},
		{`{"messages":[{"role":"user","content":"a"}],"input":"b c d"}`, false, 1 + messageMarks + answerMarks},
		{`{"stream":null}`, false, 0},
	} {
		r, err := ParseRequest([]byte(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if r.Stream != c.stream || r.Prompt().Tokens() != c.tokens {
			t.Errorf("%s: stream %v, %d tokens, want %v, %d", c.body, r.Stream, r.Prompt().Tokens(), c.stream, c.tokens)
		}
	}
}

func TestWhatARequestSaysOfResponses(t *testing.T) {
	for _, c := range []struct {
		body, previous string
		unstored       bool
	}{
		{`{"input":"a","previous_response_id":"resp_\u0031","store":true}`, "resp_1", false},
		{`{"input":"a","previous_response_id":null,"store":false}`, "", true},
		{`{"input":"a","previous_response_id":7,"store":null}`, "", false}, // the engine will say
		{`{"input":"a"}`, "", false},
	} {
		r, err := ParseRequest([]byte(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if r.Previous != c.previous || r.Unstored != c.unstored {
			t.Errorf("%s: after %q, unstored %v", c.body, r.Previous, r.Unstored)
		}
	}
}

func TestErrorEvents(t *testing.T) {
	e := Error{Message: "gone", Type: Timeout, Code: "idle_timeout", RequestID: "7"}
	const envelope = `{"message":"gone","type":"timeout_error","param":null,"code":"idle_timeout","request_id":"7"}`
	if got, want := string(e.Event(false)), `data: {"error":`+envelope+"}\n\n"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	want := `event: error` + "\n" + `data: {"type":"error","code":"idle_timeout","message":"gone","param":null,"error":` + envelope + "}\n\n"
	if got := string(e.Event(true)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestErrorJSON(t *testing.T) {
	got := string(Error{Message: `no "x"`, Type: InvalidRequest, Code: "c"}.JSON())
	if want := `{"error":{"message":"no \"x\"","type":"invalid_request_error","param":null,"code":"c"}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// FuzzMembers holds the scanner against the decoder: on an object that is
// valid it finds the same members; on anything else it ends.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":1}`, `{"a":"\\\"","b":[{"c":"]"}],"d":{}}`, `{"a":"\\"}`, ` { "é" : null } `,
		`{`, "{\"\x83\":0}", `{"`, `{"a`, `{"a":`, `{"a":"\`, `{"a":[`, `{,}`, `[1,2`, `"`, `{"a":1 2}`, `{"a":}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got := map[string]json.RawMessage{}
		ok := Members(b, func(key []byte, start, end int) bool {
			got[string(key)] = b[start:end]
			return true
		})
		elements(t, b)
		var want map[string]json.RawMessage
		if json.Unmarshal(b, &want) != nil || want == nil {
			return
		}
		if !ok || len(got) != len(want) {
			t.Fatalf("%q: ok %v, members %q, want %q", b, ok, got, want)
		}
		for key, value := range want {
			if !bytes.Equal(got[key], value) {
				t.Errorf("%q: member %q is %q, want %q", b, key, got[key], value)
			}
		}
	})
}

// elements holds the scanner of arrays against the decoder likewise.
func elements(t *testing.T, b []byte) {
	t.Helper()
	var got, want []json.RawMessage
	ok := Elements(b, func(value []byte) { got = append(got, value) })
	if json.Unmarshal(b, &want) != nil || want == nil {
		return
	}
	if !ok || !slices.EqualFunc(got, want, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		t.Errorf("%q: ok %v, elements %q, want %q", b, ok, got, want)
	}
}
