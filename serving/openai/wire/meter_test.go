package wire

import (
	"slices"
	"strings"
	"testing"
)

const chatStream = ": a comment\n\n" +
	`data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n" +
	`data: {"choices":[{"index":0,"delta":{"content":"one"}}],"usage":null}` + "\n\n" +
	`data:{"choices":[{"delta":{"content":" two"}}]}` + "\r\n\r\n" +
	`event: x` + "\n" + `data: {"choices":[{"delta":{"reasoning_content":"hm"}}]}` + "\n\n" +
	`data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n"

// responsesStream is an answer of the Responses API without its last event.
const responsesStream = "event: response.created\n" + `data: {"response":{"error":null,"usage":null},"type":"response.created"}` + "\n\n" +
	"event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","delta":"a"}` + "\n\n" +
	"event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","delta":" b"}` + "\n\n" +
	"event: response.output_text.done\n" + `data: {"type":"response.output_text.done","text":"a b"}` + "\n\n"

const responsesEnd = "event: response.completed\n" +
	`data: {"type":"response.completed","response":{"error":null,"usage":{"input_tokens":3,"output_tokens":7,"total_tokens":10}}}` + "\n\n"

// messagesStream is an answer of Anthropic's Messages API without its last events.
const messagesStream = "event: message_start\n" + `data: {"type":"message_start","message":{"usage":{"input_tokens":3,"output_tokens":1}}}` + "\n\n" +
	"event: content_block_start\n" + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n" +
	"event: ping\n" + `data: {"type":"ping"}` + "\n\n" +
	"event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}` + "\n\n" +
	"event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"Eqo="}}` + "\n\n" +
	"event: content_block_delta\n" + `data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a b"}}` + "\n\n" +
	"event: content_block_delta\n" + `data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\": 1"}}` + "\n\n"

const messagesEnd = "event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":21}}` + "\n\n" +
	"event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n"

func metered(events bool, text string) *Meter {
	m := NewMeter(events)
	_, _ = m.Write([]byte(text))
	m.Close()
	return m
}

func TestMeter(t *testing.T) {
	for _, c := range []struct {
		name   string
		events bool
		text   string
		tokens int
		failed bool
	}{
		{"events without usage", true, chatStream + "data: [DONE]\n\n", 3, false},
		{"events of several words", true, `data: {"choices":[{"delta":{"role":"the assistant","content":"a b"}}]}` + "\n\n" + `data: {"choices":[{"delta":{"content":" \n"}}]}` + "\n\n", 3, false},
		{"thoughts said twice", true, `data: {"choices":[{"delta":{"reasoning":" a b","reasoning_content":" a b","content":null}}]}` + "\n\n", 2, false},
		{"tool calls", true, `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\": 1"}}]}}]}` + "\n\n", 1, false},
		{"completion of several words", true, `data: {"choices":[{"text":"a b "}]}` + "\n\n", 2, false},
		{"events with usage", true, chatStream + `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":42}}` + "\n\ndata: [DONE]\n\n", 42, false},
		{"usage that begins at zero", true, `data: {"choices":[{"text":"a"}],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}` + "\n\n", 1, false},
		{"usage that ends at zero", true, `data: {"choices":[{"text":"a"}],"usage":{"completion_tokens":3}}` + "\n\n" + `data: {"choices":[],"usage":{"completion_tokens":0}}` + "\n\n", 3, false},
		{"completion events", true, `data: {"choices":[{"text":"a"}]}` + "\n\n" + `data: {"choices":[{"text":""}]}` + "\n\n", 1, false},
		{"no end of the last line", true, `data: {"choices":[],"usage":{"completion_tokens":42}}`, 42, false},
		{"responses", true, responsesStream + responsesEnd, 7, false},
		{"responses without usage", true, responsesStream, 2, false},
		{"responses that fail", true, responsesStream + `data: {"type":"response.failed","response":{"error":{"code":"server_error"},"usage":null}}` + "\n\n", 2, true},
		{"response", false, `{"object":"response","error":null,"output":[{"type":"message","content":[{"type":"output_text","text":"a b c"}]}],"usage":{"input_tokens":2,"output_tokens":9}}`, 9, false},
		{"response without usage", false, `{"error":null,"output":[{"type":"message","content":[{"type":"output_text","text":"a b c"}]}],"usage":null}`, 3, false},
		{"a message's events", true, messagesStream + messagesEnd, 21, false},
		{"a message's events without usage", true, messagesStream, 5, false},
		{"a message's error", true, messagesStream + "event: error\n" + `data: {"type":"error","error":{"type":"overloaded_error","message":"x"}}` + "\n\n", 5, true},
		{"a message", false, `{"type":"message","content":[{"type":"text","text":"a b"}],"usage":{"input_tokens":2,"output_tokens":9}}`, 9, false},
		{"a message without usage", false, `{"type":"message","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a b c"}]}`, 3, false},
		{"embeddings", false, `{"object":"list","data":[{"embedding":[0.1,0.2]}],"usage":{"prompt_tokens":2,"total_tokens":2}}`, 0, false},
		{"error event", true, `data: {"error":{"message":"x"}}` + "\n\n", 0, true},
		{"broken event", true, `data: {"choices":[{"delta":{"content":` + "\n\n", 0, false},
		{"answer with usage", false, `{"choices":[{"message":{"content":"a b"}}],"usage":{"completion_tokens":7}}`, 7, false},
		{"answer without usage", false, `{"choices":[{"message":{"role":"assistant","content":"a b c"}},{"text":"d"}]}`, 4, false},
		{"error", false, `{"error":{"message":"x"}}`, 0, true},
		{"no JSON", false, `<html>`, 0, false},
		{"nothing", false, ``, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := metered(c.events, c.text)
			if m.Tokens() != c.tokens || m.Failed() != c.failed {
				t.Errorf("%d tokens, failed %v; want %d, %v", m.Tokens(), m.Failed(), c.tokens, c.failed)
			}
			if done := strings.Contains(c.text, "[DONE]") || strings.Contains(c.text, "completed") || strings.Contains(c.text, "response.failed") || strings.Contains(c.text, "message_stop") || strings.Contains(c.text, "event: error"); m.Finished() != done {
				t.Errorf("finished %v, want %v", m.Finished(), done)
			}
		})
	}
}

func TestMeterTellsAnAnnouncementFromAnAnswer(t *testing.T) {
	for text, want := range map[string]bool{
		": ping\n\n": false,
		"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{}}\n\n":                                      false,
		`data: {"type":"response.in_progress"}` + "\n\n":                                                                          false,
		`data: {"type":"response.output_item.added","item":{}}` + "\n\n":                                                          false,
		`data: {"type":"response.output_text.done","text":""}` + "\n\n":                                                           true,
		`data: {"choices":[{"delta":{"role":"assistant"}}]}` + "\n\n":                                                             false,
		`data: {"choices":[{"delta":{"role":"assistant","content":""},"logprobs":{"content":[]},"finish_reason":null}]}` + "\n\n": false,
		`data: {"choices":[],"prompt_filter_results":[{}]}` + "\n\n":                                                              false,
		`data: {"choices":[],"usage":{"prompt_tokens":3}}` + "\n\n":                                                               false,
		`data: {"usage":{"prompt_tokens":3}}` + "\n\n":                                                                            false,
		`data: {"choices":[{"delta":{"content":null,"role":"assistant"}}],"prompt_progress":{"total":9}}` + "\n\n":                true,
		`data: {"choices":[{"delta":{"content":""},"logprobs":{"content":[{"token":""}]}}]}` + "\n\n":                             true,
		`data: {"choices":[{"delta":{"reasoning_content":"a"}}]}` + "\n\n":                                                        true,
		`data: {"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}` + "\n\n":                                                     true,
		`data: {"choices":[{"delta":{"refusal":"no"}}]}` + "\n\n":                                                                 true,
		`data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n":                                                        true,
		`data: {"choices":[{"text":"","finish_reason":null}]}` + "\n\n":                                                           false,
		`data: {"token":{"text":"a"}}` + "\n\n":                                                                                   true,
		`data: {"type":"message_start","message":{"usage":{"output_tokens":1}}}` + "\n\n":                                         false,
		`data: {"type":"content_block_start","index":0,"content_block":{}}` + "\n\n":                                              false,
		`data: {"type":"content_block_delta","delta":{"text":"a"}}` + "\n\n":                                                      true,
	} {
		if m := metered(true, text); m.Begun() != want {
			t.Errorf("%q has begun an answer: %v, want %v", text, m.Begun(), want)
		}
	}
}

func TestMeterReadsTheStatusOfAnError(t *testing.T) {
	for text, want := range map[string]int{
		`{"error":{"message":"x","type":"InternalServerError","code":500}}`: 500,
		`{"error":{"message":"x","type":"throttling_error","code":"429"}}`:  429,
		`{"error":{"message":"x","code":"server_error"}}`:                   0,
		`{"error":"x"}`: 0,
	} {
		if m := metered(true, "data: "+text+"\n\n"); !m.Failed() || m.Fault() != want {
			t.Errorf("%s: failed %v, status %d, want %d", text, m.Failed(), m.Fault(), want)
		}
	}
}

func TestMeterReadsTheID(t *testing.T) {
	long := strings.Repeat("a ", 1<<16)
	for _, c := range []struct {
		name   string
		events bool
		text   string
		want   string
	}{
		{"in one piece", false, `{"output":[{"id":"msg_1","content":[{"text":"` + long + `"}]}],"id":"resp_\u0031"}`, "resp_1"},
		{"first event", true, `data: {"type":"response.created","response":{"id":"resp_1"}}` + "\n\n", "resp_1"},
		{"last event", true, responsesStream + `data: {"response":{"id":"resp_1"},"type":"response.completed"}` + "\n\n", "resp_1"},
		{"first of two", true, `data: {"response":{"id":"resp_1"}}` + "\n\n" + `data: {"response":{"id":"resp_2"}}` + "\n\n", "resp_1"},
		{"chat in one piece", false, `{"id":"chatcmpl-1","choices":[{"message":{"content":"a"}}]}`, "chatcmpl-1"},
		{"first event of a chat", true, `data: {"id":"chatcmpl-1","choices":[{"delta":{"content":"a"}}]}` + "\n\n" + `data: {"id":"chatcmpl-2","choices":[]}` + "\n\n", "chatcmpl-1"},
		{"longer than most", true, `data: {"id":"` + strings.Repeat("a", 900) + `","choices":[]}` + "\n\n", strings.Repeat("a", 900)},
		{"too long", true, `data: {"id":"` + long + `","choices":[]}` + "\n\n", ""},
		{"message", true, `data: {"type":"message_start","message":{"id":"msg_1"}}` + "\n\n", "msg_1"},
		{"of something else", true, `data: {"type":"response.output_item.added","item":{"id":"msg_1"}}` + "\n\n", ""},
		{"no text", false, `{"id":1}`, ""},
		{"none", false, `{}`, ""},
	} {
		m := NewMeter(c.events)
		for piece := range slices.Chunk([]byte(c.text), 1000) {
			_, _ = m.Write(piece)
			clear(piece) // it is the caller's
		}
		if m.Close(); m.ID() != c.want {
			t.Errorf("%s: %q, want %q", c.name, m.ID(), c.want)
		}
	}
	for text, want := range map[string]string{`{"id":"chatcmpl-1"}`: "chatcmpl-1", `{"id":"a\u0031"}`: "", `{"id":""}`: "", `{"id":17}`: "", `{}`: ""} {
		if id := string(metered(false, text).PlainID()); id != want {
			t.Errorf("%s: %q without escapes, want %q", text, id, want)
		}
	}
	m := NewMeter(true)
	_, _ = m.Write([]byte(`data: {"response":{"id":"resp_1"}}` + "\n\n" + strings.Repeat("data: {}                                  \n", 9)))
	if m.ID() != "resp_1" {
		t.Errorf("%q after more events", m.ID())
	}
}

func TestMeterTellsGarbage(t *testing.T) {
	object := `{"a":"` + strings.Repeat("x", meterLimit) // more than is kept
	for text, want := range map[string]bool{
		``: true, `<html>`: true, `{"a":`: true, `[]`: true, ` {"a":1} `: false,
		object: true, object + "\"} \n": false, "[" + object + `"}`: true,
	} {
		if m := metered(false, text); m.Garbled() != want {
			t.Errorf("%.20q is garbage: %v, want %v", text, m.Garbled(), want)
		}
	}
	m := NewMeter(false)
	_, _ = m.Write([]byte(" \n"))
	if m.Garbled() {
		t.Error("spaces are garbage")
	}
	if _, _ = m.Write([]byte("Traceback")); !m.Garbled() {
		t.Error("what begins with a word is none before its end")
	}
}

func TestMeterSeesThroughAnySplit(t *testing.T) {
	const text = chatStream + "data: [DONE]\n\n"
	for at := range len(text) {
		m := NewMeter(true)
		_, _ = m.Write([]byte(text[:at]))
		_, _ = m.Write([]byte(text[at:]))
		if m.Tokens() != 3 || !m.Finished() || !m.AtLineStart() {
			t.Fatalf("split at %d: %d tokens, finished %v", at, m.Tokens(), m.Finished())
		}
	}
}

func TestMeterKeepsNoMoreThanItsLimit(t *testing.T) {
	m := NewMeter(true)
	piece := []byte(strings.Repeat("x", 1<<20))
	_, _ = m.Write([]byte("data: "))
	for range 8 {
		_, _ = m.Write(piece)
	}
	if len(m.pending) > meterLimit || m.AtLineStart() {
		t.Errorf("keeps %d bytes, at line start %v", len(m.pending), m.AtLineStart())
	}
	_, _ = m.Write([]byte("\n" + `data: {"choices":[{"text":"a"}]}` + "\n"))
	if m.Tokens() != 1 {
		t.Errorf("%d tokens after a line too long, want 1", m.Tokens())
	}
}

// FuzzMeter holds that what a Meter finds does not depend on how the bytes of an
// answer are split.
func FuzzMeter(f *testing.F) {
	f.Add([]byte(chatStream), true, []byte{1, 7, 30})
	f.Add([]byte(`{"choices":[{"text":"a b"}],"usage":{"completion_tokens":-1}}`), false, []byte{9})
	f.Add([]byte("data: {\"error\":{}}\r\n\r\ndata:[DONE]\n: hint\n\ndata: {\"choices\":["), true, []byte{0, 1, 1, 1})
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{}]}}],\"usage\":{\"completion_tokens\":99999999999999999999}}\n"), true, []byte{200})
	for _, text := range []string{
		"\xef\xbb\xbfevent: ping\ndata: ping\n\ndata: {\"choices\":\ndata: [{\"delta\":{\"content\":\"a\"}}]}\n\n",
		"id: 1\r\rdata:{\"choices\":[{\"index\":1,\"finish_reason\":\"stop\"},{\"index\":64,\"finish_reason\":\"stop\"}]}\r\r: x\r\n\r\n",
		"event: error\ndata: it broke\n\nevent: error\ndata: {\"type\":\"BadRequestError\"}\n\ndata: [DONE]",
		"data: {\"object\":\"error\",\"code\":500}\n\nTraceback (most\ndata: {}}\ndata\n",
		"retry: 1\n\nevent: other\ndata: x\n\ndata: x",
	} {
		f.Add([]byte(text), true, []byte{1, 1, 1, 30, 2, 2})
	}
	f.Add([]byte("\xef\xbb\xbf {}"), false, []byte{1, 1, 1})
	f.Fuzz(func(t *testing.T, b []byte, events bool, cuts []byte) {
		whole, pieces := NewMeter(events), NewMeter(events)
		whole.Expect(2)
		pieces.Expect(2)
		_, _ = whole.Write(b)
		rest, last := b, 0
		for _, cut := range cuts {
			n := min(int(cut), len(rest))
			if wrote, err := pieces.Write(rest[:n]); wrote != n || err != nil {
				t.Fatalf("wrote %d of %d, %v", wrote, n, err)
			}
			rest = rest[n:]
			// An answer never un-happens; only its own word may correct the count.
			if pieces.stated < 0 && pieces.Tokens() < last {
				t.Fatalf("%d tokens after %d", pieces.Tokens(), last)
			}
			last = pieces.Tokens()
		}
		_, _ = pieces.Write(rest)
		same(t, b, whole, pieces)
		whole.Close()
		pieces.Close()
		same(t, b, whole, pieces)
	})
}

func same(t *testing.T, b []byte, whole, pieces *Meter) {
	t.Helper()
	type findings struct {
		tokens, fault                                     int
		started, begun, finished, failed, garbled, atLine bool
		stated, refused, over, mute, undecided, inCR      bool
		known, opening, cut, hollow                       bool
	}
	of := func(m *Meter) findings {
		return findings{
			m.Tokens(), m.Fault(), m.Started(), m.Begun(), m.Finished(), m.Failed(), m.Garbled(), m.AtLineStart(),
			m.Stated(), m.Refused(), m.Over(), m.Mute(), m.Undecided(), m.EndsInCR(),
			m.Known(), m.Opening(), m.Cut(), m.Hollow(),
		}
	}
	if x, y := of(whole), of(pieces); x != y || x.tokens < 0 {
		t.Errorf("%q: at once %+v, in pieces %+v", b, x, y)
	}
}

// purse is a budget of so many bytes.
type purse int64

func (p *purse) Keep(n int64) bool {
	if int64(*p) < n {
		return false
	}
	*p -= purse(n)
	return true
}

func (p *purse) Drop(n int64) { *p += purse(n) }

// What a meter keeps of long answers is charged; one for which there is no room passes
// unread, and a short one costs nothing.
func TestMetersKeepWithinABudget(t *testing.T) {
	long := `{"text":"` + strings.Repeat("x", 100<<10) + `","usage":{"completion_tokens":7}}`
	const all = 1 << 20
	for _, x := range []struct {
		name   string
		room   purse
		events bool
		text   string
		want   int // tokens
	}{
		{"with room", all, false, long, 7},
		{"without", 50 << 10, false, long, 0},
		{"a short answer needs none", 0, false, `{"usage":{"completion_tokens":7}}`, 7},
		{"an event without room", 50 << 10, true, "data: " + long + "\n\ndata: {\"usage\":{\"completion_tokens\":9}}\n\n", 9},
	} {
		room := x.room
		m := NewMeter(x.events)
		m.Within(&room)
		for text := x.text; text != ""; { // as it comes off a connection
			n := min(len(text), 1000)
			_, _ = m.Write([]byte(text[:n]))
			text = text[n:]
		}
		m.Close()
		if m.Tokens() != x.want || m.Garbled() {
			t.Errorf("%s: %d tokens, garbled %v; want %d", x.name, m.Tokens(), m.Garbled(), x.want)
		}
		m.Drop()
		m.Drop()
		if room != x.room {
			t.Errorf("%s: %d bytes are left of %d", x.name, room, x.room)
		}
	}
}

// The prompt's tokens are those that the answer states, of whichever API, cached ones among them.
func TestMeterReadsThePromptsTokens(t *testing.T) {
	for _, c := range []struct {
		name, text string
		events     bool
		want       int
	}{
		{"a chat", `{"choices":[],"usage":{"prompt_tokens":90,"completion_tokens":4,"total_tokens":94,"prompt_tokens_details":{"cached_tokens":64}}}`, false, 90},
		{"usage last", `{"choices":[],"usage":{"total_tokens":94,"completion_tokens":4,"prompt_tokens":90}}`, false, 90},
		{"both names", `{"choices":[],"usage":{"input_tokens":90,"prompt_tokens":90}}`, false, 90},
		{"a response", `{"output":[],"usage":{"input_tokens":31,"input_tokens_details":{"cached_tokens":16},"output_tokens":8}}`, false, 31},
		{"Anthropic's, with a cache", `{"content":[],"usage":{"input_tokens":10,"cache_read_input_tokens":80,"cache_creation_input_tokens":0,"output_tokens":8}}`, false, 90},
		{"a stream", "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n", true, 9},
		{"a message's stream", messagesStream + messagesEnd, true, 3},
		{"a message's stream that counts at its end", messagesStream + "event: message_delta\n" + `data: {"type":"message_delta","delta":{},"usage":{"input_tokens":7,"output_tokens":21}}` + "\n\n", true, 7},
		{"none", `{"choices":[]}`, false, 0},
		{"zero", `{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}}`, false, 0},
		{"absurd", `{"choices":[],"usage":{"prompt_tokens":99999999999999999999,"completion_tokens":-4}}`, false, 0},
		{"no number", `{"choices":[],"usage":{"prompt_tokens":"90"}}`, false, 0},
	} {
		m := NewMeter(c.events)
		if _, err := m.Write([]byte(c.text)); err != nil {
			t.Fatal(err)
		}
		m.Close()
		if got := m.Prompt(); got != c.want {
			t.Errorf("%s: %d tokens, want %d", c.name, got, c.want)
		}
	}
}

// An answer in one piece whose engine states no usage has the tokens of its text, whatever its script.
func TestMeterEstimatesAnswersWithoutUsage(t *testing.T) {
	for text, want := range map[string][2]int{
		strings.TrimSpace(strings.Repeat("word ", 100)): {100, 100}, strings.Repeat("请帮我写一封邮件给客户", 10): {70, 130}, strings.Repeat(`{\"a\":[1,2]}`, 20): {100, 220},
	} {
		for _, answer := range []string{`{"choices":[{"message":{"role":"assistant","content":"` + text + `"}}]}`, `{"choices":[{"text":"` + text + `"}]}`, `{"output":[{"content":[{"type":"output_text","text":"` + text + `"}]}]}`} {
			m := NewMeter(false)
			if _, err := m.Write([]byte(answer)); err != nil {
				t.Fatal(err)
			}
			m.Close()
			if got := m.Tokens(); got < want[0] || got > want[1] {
				t.Errorf("%.40s: %d tokens, want %v", answer, got, want)
			}
		}
	}
}
