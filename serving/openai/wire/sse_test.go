package wire

import (
	"strings"
	"testing"
)

func TestFormOf(t *testing.T) {
	for text, want := range map[string]Form{
		"": Unclear, " \r\n": Unclear, "\xef": Unclear, "\xef\xbb": Unclear, "\xef\xbb\xbf": Unclear, "\xef\xbb\xbf\n": Unclear,
		"d": Unclear, "data": Unclear, "e": Unclear, "retr": Unclear, "\n\nid": Unclear,
		"data:": Events, "data: {": Events, "event: x": Events, "id:1": Events, "retry:": Events, ":": Events, "\xef\xbb\xbf\r\ndata:{}": Events,
		"{": Object, "\xef\xbb\xbf {}": Object, "\n{": Object,
		"[": Other, "<html>": Other, "date": Other, "datax": Other, "\xff": Other, "Traceback": Other, "data {": Other,
	} {
		if got := FormOf([]byte(text)); got != want {
			t.Errorf("%q: form %d, want %d", text, got, want)
		}
	}
}

// What keeps a connection open is no beginning of an answer, and another's may follow it, but
// not in the middle of an event.
func TestMeterTellsSilenceFromAnEvent(t *testing.T) {
	for _, c := range []struct {
		text            string
		mute, undecided bool
	}{
		{": ping\n", true, false},
		{": pi", false, true},
		{"\n\r\n", true, false},
		{"\xef\xbb\xbf\n", true, false},
		{"retry: 3000\n\n", true, false},
		{"id: 1\n", false, false},
		{"event: ping\n", false, true},
		{"event: ping\ndata: ping\n", false, true},
		{"event: ping\ndata: ping\n\n", true, false},
		{"event: keep-alive\ndata: {\"type\":\"ping\"}\r\r", true, false},
		{"event: metrics\ndata: load=3\n\n", true, false},
		{"data: heartbeat\n\n", true, false},
		{"data:\n\n", true, false},
		{"event: message\n", false, false},
		{"event: response.created\n", false, false},
		{"data: {\n", false, true},
		{"data: {\"choices\":[]}\n", false, false},
		{"data: [DONE]\n\n", false, false},
		{"Traceback (most", false, true},
		{"Traceback (most recent call last):\n", false, false},
		{"x-unknown: field\n\n", true, false},
	} {
		m := NewMeter(true)
		_, _ = m.Write([]byte(c.text))
		if m.Mute() != c.mute || m.Undecided() != c.undecided {
			t.Errorf("%q: mute %v, undecided %v; want %v, %v", c.text, m.Mute(), m.Undecided(), c.mute, c.undecided)
		}
	}
}

// An event is read once, whether it is the first line or all of them that make it whole.
func TestMeterReadsEachEventOnce(t *testing.T) {
	const a, b = `{"choices":[{"delta":{"content":"a"}}]}`, `{"choices":[{"delta":{"content":"b"}}]}`
	for text, want := range map[string]int{
		"data: " + a + "\n\ndata: " + b + "\n\n":                                                        2,
		"data: " + a + "\ndata: " + b + "\n\n":                                                          2, // no blank line between them
		"data: " + a[:20] + "\ndata: " + a[20:]:                                                         1,
		"data: " + a[:1] + "\ndata: " + a[1:20] + "\n: between\ndata:" + a[20:] + "\n\n":                1,
		`data: {"choices":[{"delta":{"content":"a"}}],` + "\n" + `data: "usage":null}` + "\n\n":         1,
		`data: {"choices":[{"delta":{"content":"a"}}],"x":{}` + "\n" + `data: ,"usage":null}` + "\n\n":  1,
		`data: {"choices":[{"delta":{"content":"a"}}],"x":{}` + "\n\n" + `data: "usage":null}` + "\n\n": 0, // two broken ones
	} {
		if m := metered(true, text); m.Tokens() != want || m.Garbled() != (want == 0) {
			t.Errorf("%q: %d tokens, garbled %v; want %d", text, m.Tokens(), m.Garbled(), want)
		}
	}
}

// An event over many lines costs no more than it is long, and no more than the limit is kept.
func TestMeterKeepsOfAnEventNoMoreThanItsLimit(t *testing.T) {
	m := NewMeter(true)
	line := []byte("data: \"" + strings.Repeat("x", 1<<10) + "\",\n")
	_, _ = m.Write([]byte("data: [\n"))
	for range 8 << 10 {
		_, _ = m.Write(line)
		if len(m.sse.data) > meterLimit {
			t.Fatalf("keeps %d bytes", len(m.sse.data))
		}
	}
	if _, _ = m.Write([]byte("\n")); m.Tokens() != 1 || m.Garbled() {
		t.Errorf("%d tokens, garbled %v; what is too long is one token", m.Tokens(), m.Garbled())
	}
}

func TestChoicesThatHaveEnded(t *testing.T) {
	for _, c := range []struct {
		expected int
		seen     []int
		want     bool
	}{
		{0, nil, false}, {0, []int{0}, true}, {1, []int{1}, false}, {2, []int{1, 0}, true}, {2, []int{0, 0}, false},
		{130, nil, false}, {1, []int{-1}, false}, {1, []int{1 << 40}, false}, {1, []int{mostChoices - 1}, false},
	} {
		s := choices{expected: c.expected}
		for _, i := range c.seen {
			s.seen(i, true)
		}
		if s.ended() != c.want {
			t.Errorf("%d expected, %v ended: %v, want %v", c.expected, c.seen, s.ended(), c.want)
		}
	}
	s := choices{expected: 130}
	for i := range 130 {
		if s.ended() {
			t.Errorf("ended after %d of 130", i)
		}
		s.seen(i, true)
	}
	if !s.ended() {
		t.Error("130 have ended, and it does not say so")
	}
}

func TestChoicesThatAreAskedFor(t *testing.T) {
	for body, want := range map[string]int{
		`{}`: 1, `{"n":3}`: 3, `{"n":null}`: 1, `{"n":0}`: 1, `{"n":"2"}`: 1,
		`{"prompt":"a"}`: 1, `{"prompt":["a","b"]}`: 2, `{"prompt":[1,2,3]}`: 1, `{"prompt":[[1],[2,3]],"n":2}`: 4, `{"prompt":[]}`: 1, `{"prompt":[ ]}`: 1,
		`{"messages":[{"content":"a"},{"content":"b"}]}`: 1,
	} {
		r, err := ParseRequest([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Choices(); got != want {
			t.Errorf("%s: %d, want %d", body, got, want)
		}
	}
}
