package serving_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"gearshift/serving"
	"gearshift/serving/backend"
	"gearshift/serving/config"
)

// word is an event of a chat, and stopped its last: of the choice with the index.
func word(index, text string) string {
	return `data: {"choices":[{"index":` + index + `,"delta":{"content":"` + text + `"},"finish_reason":null}]}` + "\n\n"
}

func stopped(index string) string {
	return `data: {"choices":[{"index":` + index + `,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
}

// TestCaseSSEContentType has engines that name no type for their events, or a wrong one: a
// client that asked for a stream gets each at once, as what it is. Each event is sent only
// once the client has the one before.
func TestCaseSSEContentType(t *testing.T) {
	events := []string{word("0", "one"), word("0", "two"), stopped("0"), done}
	for name, c := range map[string]struct{ kind, before string }{
		"as JSON":                 {"application/json", ""},
		"as text":                 {"text/plain; charset=utf-8", ""},
		"of no type":              {"", ""},
		"as bytes":                {"application/octet-stream", ""},
		"of a type that is none":  {";;", ""},
		"after a byte order mark": {"text/plain", "\xef\xbb\xbf"},
		"after blank lines":       {"application/json", "\r\n\n"},
		"a comment first":         {"application/json", ": hello\n\n"},
		"a name first":            {"text/plain", "event: message\n"},
		"an ID first":             {"", "id: 1\n"},
		"a time to retry first":   {"", "retry: 3000\n\n"},
		"its first data empty":    {"", "data:\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			received := make(chan struct{})
			g := newRig(t, transport(func(*http.Request) (*http.Response, error) {
				body, out := io.Pipe()
				go func() {
					for i, event := range events {
						if i == 0 {
							event = c.before + event
						}
						_, _ = io.WriteString(out, event)
						<-received
					}
					out.Close()
				}()
				return reply(http.StatusOK, c.kind, body), nil
			}))
			server := httptest.NewServer(g)
			defer server.Close()
			for range config.Default().Health.Failures + 1 {
				response, err := http.Post(server.URL+chat, jsonType, strings.NewReader(askStream))
				if err != nil {
					t.Fatal(err)
				}
				in, got := bufio.NewReader(response.Body), ""
				for i, event := range events {
					if i == 0 {
						event = c.before + event
					}
					text := make([]byte, len(event))
					if _, err := io.ReadFull(in, text); err != nil {
						t.Fatalf("after %q: %v", got, err)
					}
					if got += string(text); string(text) != event {
						t.Fatalf("got %q", got)
					}
					received <- struct{}{}
				}
				_, err = io.ReadAll(in)
				response.Body.Close()
				if h := response.Header; err != nil || h.Get("Content-Type") != eventType || h.Get("X-Gearshift-Replica") != "small@a" || h.Get("X-Gearshift-Attempts") != "1" || h.Get("X-Accel-Buffering") != "no" {
					t.Errorf("%v, header %v", err, h)
				}
				<-g.returned
			}
			if found := g.counted("gearshift_requests_total"); len(found) != 1 || !strings.Contains(found[0], `outcome="completed"`) {
				t.Errorf("ended %q", found)
			}
		})
	}
}

// Who asked for no stream cannot read one under another name, and an object under the name
// of a stream is still an object.
func TestAnswersAreWhatTheyLookLike(t *testing.T) {
	stream := word("0", "one") + stopped("0") + done
	const theirs = `{"error":{"message":"too long","type":"invalid_request_error","param":null,"code":null}}`
	for _, c := range []struct {
		name       string
		ask        string
		status     int
		kind, body string
		wantStatus int
		wantKind   string
		outcome    string
	}{
		{"an object called a stream, a stream asked for", askStream, 200, eventType, fine, 200, jsonType, "completed"},
		{"an object called a stream", ask, 200, eventType, " \n" + fine, 200, jsonType, "completed"},
		{"an object for a stream", askStream, 200, jsonType, fine, 200, jsonType, "completed"},
		{"an object after a byte order mark", ask, 200, jsonType, "\xef\xbb\xbf" + fine, 200, jsonType, "completed"},
		{"an object in lines, called a stream", askStream, 200, eventType, "{\n\"choices\": [{\"message\": {\"content\": \"a\"}}]\n}", 200, jsonType, "completed"},
		{"an error called a stream", askStream, 400, eventType, theirs, 400, jsonType, "refused"},
		{"events that nobody asked for, called JSON", ask, 200, jsonType, stream, 502, jsonType, "failed"},
		{"events that nobody asked for", ask, 200, eventType, stream, 200, eventType, "completed"},
		{"a text called a stream", askStream, 200, eventType, "Traceback (most recent call last):\n\n", 502, jsonType, "failed"},
		{"a page called a stream", askStream, 200, eventType, "<html>\n<body>\n", 502, jsonType, "failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, says(c.status, c.kind, c.body))
			w := g.do("POST", chat, c.ask)
			if kind := w.Result().Header.Get("Content-Type"); w.Code != c.wantStatus || kind != c.wantKind {
				t.Errorf("got %d, %q: %s", w.Code, kind, w.Body)
			}
			if c.wantStatus != 502 && w.Body.String() != c.body {
				t.Errorf("the body changed: %q", w.Body)
			}
			g.settled(t, c.outcome)
		})
	}
}

// Streams in each form that the standard allows pass as they are, and are metered alike.
func TestStreamsInAllTheirForms(t *testing.T) {
	const first, second = `{"choices":[{"index":0,"delta":{"content":"one two"}}]}`, `{"choices":[{"index":0,"delta":{"content":" three"},"finish_reason":"stop"}]}`
	const usage = `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":9,"total_tokens":10}}`
	of := func(events ...string) string {
		var text strings.Builder
		for _, event := range events {
			text.WriteString("data: " + event + "\n\n")
		}
		return text.String()
	}
	plain := of(first, second, "[DONE]")
	lines := func(text string) string {
		return strings.NewReplacer("[{", "[\ndata:  {", `,"delta"`, ",\ndata: \t\"delta\"").Replace(text)
	}
	for name, c := range map[string]struct {
		text   string
		tokens int
	}{
		"as most are":                   {plain, 3},
		"an event over several lines":   {lines(plain), 3},
		"usage over several lines":      {lines(of(first, second)) + "data: {\"choices\":[],\ndata: \"usage\":{\ndata: \"completion_tokens\":9}}\n\n", 9},
		"line feeds after returns":      {strings.ReplaceAll(plain, "\n", "\r\n"), 3},
		"returns alone":                 {strings.ReplaceAll(plain, "\n", "\r"), 3},
		"several lines, returns alone":  {strings.ReplaceAll(lines(plain), "\n", "\r"), 3},
		"no space":                      {strings.ReplaceAll(plain, "data: ", "data:"), 3},
		"a byte order mark":             {"\xef\xbb\xbf" + plain, 3},
		"comments":                      {": hello\n\n" + strings.ReplaceAll(plain, "\n\n", "\n: there\n\n"), 3},
		"pings":                         {"event: ping\ndata: ping\n\n" + of(first) + "event: ping\ndata: {\"type\":\"ping\"}\n\n" + of(second, "[DONE]"), 3},
		"pings without a name":          {of("ping", first, "PING", second, "[DONE]"), 3},
		"another's event":               {of(first) + "event: metrics\ndata: load=3\n\n" + of(second, "[DONE]"), 3},
		"IDs and names":                 {"id: 1\nevent: message\n" + plain, 3},
		"no last event":                 {of(first, second), 3},
		"usage after the end":           {of(first, second, usage), 9},
		"usage and a last event":        {of(first, second, usage, "[DONE]"), 9},
		"no end of the last line":       {strings.TrimSpace(plain), 3},
		"an event of six megabytes":     {of(first, `{"choices":[{"index":0,"delta":{"content":"`+strings.Repeat("A", 6<<20)+`"}}]}`, second, "[DONE]"), 4},
		"its only event too long":       {of(`{"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("A", 6<<20) + `"},"finish_reason":"stop"}]}`), 1},
		"six megabytes in many lines":   {of(first) + "data: {\"choices\":[{\"delta\":{\"content\":[\n" + strings.Repeat("data: \""+strings.Repeat("A", 1<<20)+"\",\n", 6) + "data: \"\"]}}]}\n\n" + of(second), 4},
		"a first event without content": {of(`{"choices":[],"prompt_filter_results":[{"prompt_index":0}]}`) + plain, 3},
	} {
		t.Run(name, func(t *testing.T) {
			engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", eventType)
				w.(http.Flusher).Flush() // no length, but chunks
				_, _ = io.WriteString(w, c.text)
			}))
			defer engine.Close()
			var seen watched
			g := newRig(t, to(engine), func(o *serving.Options) { o.Watchers = []serving.Watcher{&seen} })
			w, broken := g.visit(askStream)
			if broken || w.Body.String() != c.text {
				t.Errorf("broken %v, the client got %.300q", broken, w.Body)
			}
			if w.Result().Header.Get("X-Gearshift-Attempts") != "1" || len(seen.results) != 1 || seen.results[0].Tokens != c.tokens {
				t.Errorf("ended as %+v, want one of %d tokens", seen.results, c.tokens)
			}
			g.settled(t, "completed")
		})
	}
}

// A stream of several choices is whole once each of them has ended.
func TestAStreamOfSeveralChoicesEndsWithTheLast(t *testing.T) {
	both := word("0", "a") + word("1", "b")
	const (
		two     = `{"model":"auto","stream":true,"n":2,"messages":[{"role":"user","content":"hi"}]}`
		prompts = `{"model":"auto","stream":true,"prompt":["a","b"]}`
		ids     = `{"model":"auto","stream":true,"prompt":[[1,2],[3]],"n":2}`
		tokens  = `{"model":"auto","stream":true,"prompt":[1,2,3]}`
	)
	for _, c := range []struct {
		name, ask, text string
		whole           bool
	}{
		{"cut after one of two", two, both + stopped("0") + word("1", "c"), false},
		{"cut after one, before the other begins", two, word("0", "a") + stopped("0"), false},
		{"each ended", two, both + stopped("1") + stopped("0"), true},
		{"each ended in one event", two, both + `data: {"choices":[{"finish_reason":"stop","index":1},{"finish_reason":"length","index":0}]}` + "\n\n", true},
		{"one ended twice", two, both + stopped("0") + stopped("0"), false},
		{"a last event", two, both + stopped("0") + done, true},
		{"one that was asked for", askStream, word("0", "a") + stopped("0"), true},
		{"more than were asked for", askStream, both + stopped("0"), false},
		{"one of two prompts", prompts, both + stopped("1"), false},
		{"both prompts", prompts, both + stopped("0") + stopped("1"), true},
		{"three of four", ids, both + stopped("0") + stopped("1") + stopped("3"), false},
		{"all of four", ids, both + stopped("0") + stopped("1") + stopped("3") + stopped("2"), true},
		{"a prompt of three tokens", tokens, word("0", "a") + stopped("0"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", eventType)
				w.(http.Flusher).Flush()
				_, _ = io.WriteString(w, c.text)
			}))
			defer engine.Close()
			g := newRig(t, to(engine))
			w, broken := g.visit(c.ask)
			if broken == c.whole || strings.Contains(w.Body.String(), "upstream_broke_off") == c.whole {
				t.Errorf("broken %v, the client got %q", broken, w.Body)
			}
			g.settled(t, map[bool]string{true: "completed", false: "failed"}[c.whole])
		})
	}
}

// An error that comes first, in whatever form a success has it, is no answer while another
// replica may have one. In the middle of a stream it is what the client gets.
func TestAnErrorInASuccessIsTriedElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		kind, text string
		elsewhere  bool
	}{
		"an object":                         {jsonType, `{"error":{"message":"model crashed","code":502}}`, true},
		"an object that names no status":    {jsonType, `{"error":{"message":"model crashed","type":"server_error"}}`, true},
		"a text":                            {jsonType, `{"error":"model crashed"}`, true},
		"without an envelope":               {jsonType, `{"object":"error","message":"model crashed","type":"InternalServerError","code":500}`, true},
		"an object called a stream":         {eventType, `{"error":{"message":"model crashed","code":502}}`, true},
		"an event":                          {eventType, `data: {"error":{"message":"model crashed","code":502}}` + "\n\n" + done, true},
		"an event over several lines":       {eventType, "data: {\"error\":\ndata: {\"message\":\"model crashed\"}}\n\n" + done, true},
		"an event of the name":              {eventType, "event: error\ndata: {\"message\":\"model crashed\",\"code\":500}\n\n", true},
		"an event of the name, as text":     {eventType, "event: error\ndata: model crashed\n\n", true},
		"an event of the name, by type":     {eventType, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n", true},
		"an event after a ping":             {eventType, "event: ping\ndata: ping\n\nevent: error\ndata: {\"message\":\"model crashed\"}\n\n", true},
		"an event, called JSON":             {jsonType, `data: {"error":{"message":"model crashed","code":502}}` + "\n\n" + done, true},
		"the request's fault":               {jsonType, `{"error":{"message":"too long","type":"invalid_request_error"}}`, false},
		"the request's fault, by its code":  {eventType, `data: {"error":{"message":"too long","code":400}}` + "\n\n" + done, false},
		"the request's fault, without more": {eventType, "event: error\ndata: {\"object\":\"error\",\"type\":\"BadRequestError\",\"message\":\"too long\"}\n\n", false},
		"in the middle":                     {eventType, word("0", "a") + `data: {"error":{"message":"model crashed"}}` + "\n\n", false},
		"in the middle, of the name":        {eventType, word("0", "a") + "event: error\ndata: model crashed\n\n", false},
	} {
		for _, cut := range []int{0, 7, 9, 20} { // it may come in pieces
			var asked []string
			g := newRig(t, nil, fleetOf(&asked, inTwo(c.kind, c.text, cut), says(200, eventType, word("0", "b")+stopped("0")+done), refuses))
			w, broken := g.visit(askStream)
			if elsewhere := len(asked) == 2; elsewhere != c.elsewhere || broken || !c.elsewhere && w.Body.String() != c.text {
				t.Errorf("%s, cut at %d: asked %v, broken %v, the client got %q", name, cut, asked, broken, w.Body)
			}
			if c.elsewhere && !strings.HasSuffix(w.Body.String(), word("0", "b")+stopped("0")+done) {
				t.Errorf("%s, cut at %d: the client got %q", name, cut, w.Body)
			}
		}
	}
}

// inTwo sends a text in two pieces.
func inTwo(kind, text string, at int) transport {
	return func(*http.Request) (*http.Response, error) {
		at := min(at, len(text))
		return reply(http.StatusOK, kind, &inPieces{slices.DeleteFunc([][]byte{[]byte(text[:at]), []byte(text[at:])}, func(b []byte) bool { return len(b) == 0 })}), nil
	}
}

// A replica whose streams end in an error of its own in the middle is at fault, whether or not
// it names a status.
func TestAnEngineWhoseStreamsEndInErrorsIsEjected(t *testing.T) {
	g := newRig(t, good, func(o *serving.Options) {
		o.Backends[smallOnA].Transport = says(200, eventType, word("0", "a")+"event: error\ndata: {\"message\":\"model crashed\"}\n\n")
	})
	for range config.Default().Health.Failures {
		if w, _ := g.visit(askStream); w.Result().Header.Get("X-Gearshift-Replica") != "small@a" {
			t.Fatalf("answered by %s", w.Result().Header.Get("X-Gearshift-Replica"))
		}
	}
	if w, _ := g.visit(askStream); w.Result().Header.Get("X-Gearshift-Replica") != "small@b" {
		t.Errorf("after that by %s", w.Result().Header.Get("X-Gearshift-Replica"))
	}
}

// What breaks off within its first event has given the client nothing, so another replica can.
func TestAStreamThatBreaksWithinItsFirstEventIsTriedElsewhere(t *testing.T) {
	for _, text := range []string{`data: {"choi`, "data: {\"choices\":\n", "event: error\n", ": ping\n\ndata: {", "\xef\xbb"} {
		var asked []string
		g := newRig(t, nil, fleetOf(&asked, transport(func(*http.Request) (*http.Response, error) {
			return reply(http.StatusOK, eventType, breaks{strings.NewReader(text), errors.New("reset")}), nil
		}), says(200, eventType, word("0", "b")+stopped("0")+done), refuses))
		w, broken := g.visit(askStream)
		if len(asked) != 2 || broken || w.Body.String() != word("0", "b")+stopped("0")+done {
			t.Errorf("%q: asked %v, broken %v, the client got %q", text, asked, broken, w.Body)
		}
	}
}

// The event that says that a stream broke off must be one of its own, whatever ended the line
// before it.
func TestTheEventThatSaysSoStandsAlone(t *testing.T) {
	const said = "\n\ndata: {\"error\":"
	for text, want := range map[string]string{
		word("0", "a"): "\n\n" + said[1:],
		strings.ReplaceAll(word("0", "a"), "\n", "\r"):     "\r\r" + said,
		word("0", "a") + "data: {\"choices\":[\n":          "",
		word("0", "a") + "data: {\"choices\":[\ndata: {\n": "",
	} {
		g := newRig(t, transport(func(*http.Request) (*http.Response, error) {
			return reply(http.StatusOK, eventType, breaks{strings.NewReader(text), errors.New("reset")}), nil
		}))
		w, broken := g.visit(askStream)
		if !broken || want == "" && w.Body.String() != text || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%q: broken %v, the client got %q", text, broken, w.Body)
		}
	}
}

// An engine that compresses what it answers, though it is asked not to, is no failure: what can
// be undone is, and what cannot passes as it is, under its name, and counts as no tokens.
func TestAnswersThatAreCompressed(t *testing.T) {
	stream := word("0", "one") + word("0", "two") + stopped("0") + done
	for _, c := range []struct {
		name, ask, kind, coding, body string
		status, tokens                int
		want, wantCoding              string
	}{
		{"an answer", ask, jsonType, "gzip", zipped(fine), 200, 4, fine, ""},
		{"a stream", askStream, eventType, "gzip", zipped(stream), 200, 2, stream, ""},
		{"a stream called JSON", askStream, jsonType, "gzip", zipped(stream), 200, 2, stream, ""},
		{"an error", ask, jsonType, "gzip", zipped(theirError), 400, 0, theirError, ""},
		{"an answer in a coding that nobody knows", ask, jsonType, "br", "\x01\x02\x03", 200, 0, "\x01\x02\x03", "br"},
		{"a stream in a coding that nobody knows", askStream, eventType, "br", "\x01\x02\x03", 200, 0, "\x01\x02\x03", "br"},
	} {
		t.Run(c.name, func(t *testing.T) {
			engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("Accept-Encoding"); got != "identity" {
					t.Errorf("the engine is asked for %q", got)
				}
				w.Header().Set("Content-Type", c.kind)
				w.Header().Set("Content-Encoding", c.coding)
				w.WriteHeader(c.status)
				w.(http.Flusher).Flush()
				_, _ = io.WriteString(w, c.body)
			}))
			defer engine.Close()
			upstream, err := backend.NewUpstream(backend.UpstreamConfig{URL: engine.URL})
			if err != nil {
				t.Fatal(err)
			}
			defer upstream.Close()
			var seen watched
			g := newRig(t, upstream, func(o *serving.Options) { o.Watchers = []serving.Watcher{&seen} })
			w := g.do("POST", chat, c.ask, "Accept-Encoding", "gzip, br")
			if h := w.Result().Header; w.Code != c.status || w.Body.String() != c.want || h.Get("Content-Encoding") != c.wantCoding || h.Get("X-Gearshift-Attempts") != "1" {
				t.Errorf("got %d, header %v, %q", w.Code, h, w.Body)
			}
			if len(seen.results) != 1 || seen.results[0].Tokens != c.tokens {
				t.Errorf("ended as %+v, want one of %d tokens", seen.results, c.tokens)
			}
			g.settled(t, map[int]string{200: "completed", 400: "refused"}[c.status])
		})
	}
}

// zipped is the text as gzip has it.
func zipped(text string) string {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = io.WriteString(w, text)
	w.Close()
	return out.String()
}
