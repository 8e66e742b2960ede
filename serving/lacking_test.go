package serving_test

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gearshift/serving"
	"gearshift/serving/config"
	"gearshift/serving/openai/proxy"
)

// What engines have beside chats, and a request for each. Others name a variant in place of auto.
var lesser = map[string]string{
	"/v1/rerank": `{"model":"auto","query":"a","documents":["b","c"]}`, "/v2/rerank": `{"model":"auto","query":"a","documents":["b","c"]}`,
	"/rerank": `{"model":"auto","query":"a","documents":["b","c"]}`, "/v1/score": `{"model":"auto","text_1":"a","text_2":"b"}`, "/score": `{"model":"auto","text_1":"a","text_2":"b"}`,
	"/tokenize": `{"model":"auto","prompt":"a b"}`, "/detokenize": `{"model":"auto","tokens":[1,2]}`,
	messages: `{"model":"auto","max_tokens":9,"messages":[{"role":"user","content":"a"}]}`, messages + "/count_tokens": `{"model":"auto","messages":[{"role":"user","content":"a"}]}`,
	responses: `{"model":"auto","input":"a"}`, responses + "/compact": `{"model":"auto","input":[{"role":"user","content":"a"}]}`, responses + "/input_tokens": `{"model":"auto","input":"a"}`, embeddings: `{"model":"auto","input":"a"}`,
	"/v1/audio/transcriptions": `{"model":"auto","file":"data:"}`,
}

// TestLesserEndpointsPass: each reaches the engine byte for byte but for the model, and its
// answer comes back so, an object or, of rankings, a list.
func TestLesserEndpointsPass(t *testing.T) {
	for path, order := range lesser {
		for _, answer := range []string{`{ "results":[{"index":1,"relevance_score":0.9}], "output":[{"id":"msg_1"}], "content":[{"type":"text"}], "usage":{"total_tokens":3}}`, ` [{"index":1,"score":0.9} ]`} {
			var asked, at string
			var seen watched
			g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
				body, _ := io.ReadAll(r.Body)
				asked, at = string(body), r.URL.Path
				return reply(http.StatusOK, jsonType, io.NopCloser(strings.NewReader(answer))), nil
			}), func(o *serving.Options) { o.Watchers = []serving.Watcher{&seen} })
			w := g.do("POST", path, order)
			list := strings.HasPrefix(answer, " [")
			if list && !strings.Contains(path, "rerank") && !strings.Contains(path, "score") {
				if w.Code != http.StatusBadGateway {
					t.Errorf("%s: a list is %d", path, w.Code)
				}
				continue
			}
			if w.Code != http.StatusOK || w.Body.String() != answer || at != path || asked != strings.Replace(order, "auto", "small", 1) {
				t.Errorf("%s: %d %s; the engine got %s %s", path, w.Code, w.Body, at, asked)
			}
			if g.settled(t, "completed"); len(seen.results) != 1 {
				t.Errorf("%s: %d told", path, len(seen.results))
			}
		}
	}
}

// TestAnEngineThatLacksAnEndpoint is passed over, and is none the worse for it.
func TestAnEngineThatLacksAnEndpoint(t *testing.T) {
	for _, lacks := range []transport{says(404, jsonType, `{"detail":"Not Found"}`), says(404, "text/plain", "404 page not found\n"), says(405, jsonType, `{"detail":"Method Not Allowed"}`), says(501, jsonType, `{"error":{"code":501,"message":"This server does not support it. Start it with --it"}}`)} {
		for path, order := range lesser {
			var asked []string
			chats := transport(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path == chat {
					return good(r)
				}
				return lacks(r)
			})
			g := newRig(t, nil, fleetOf(&asked, chats, chats, good))
			for i := range 3 {
				w := g.do("POST", path, order)
				if w.Code != http.StatusOK || w.Header().Get("X-Gearshift-Replica") != "large@a" {
					t.Fatalf("%s: request %d: %d by %s: %s", path, i, w.Code, w.Header().Get("X-Gearshift-Replica"), w.Body)
				}
			}
			// Both are asked once, and the one that has it from then on.
			if want := []string{"small@a", "small@b", "large@a", "large@a", "large@a"}; !slices.Equal(asked, want) {
				t.Errorf("%s: asked %v, want %v", path, asked, want)
			}
			if got := g.states(); got != "up up up" {
				t.Errorf("%s: %s", path, got)
			}
			if w := g.do("POST", chat, ask); w.Header().Get("X-Gearshift-Replica") == "large@a" {
				t.Errorf("%s: a chat is kept away too", path)
			}
		}
	}
}

// TestNoEngineHasTheEndpoint: the client is told so, and engines are asked again: one may
// have got it since.
func TestNoEngineHasTheEndpoint(t *testing.T) {
	var asked []string
	there := false
	rt := transport(func(r *http.Request) (*http.Response, error) {
		if there {
			return good(r)
		}
		return says(404, jsonType, `{"detail":"Not Found"}`)(r)
	})
	g := newRig(t, nil, fleetOf(&asked, rt, rt, rt))
	for _, c := range []struct{ order, message string }{
		{lesser["/v1/rerank"], "no engine has /v1/rerank"},
		{strings.Replace(lesser["/v1/rerank"], "auto", "small", 1), `no engine of the model "small" has /v1/rerank`},
		{lesser["/v1/rerank"], "no engine has /v1/rerank"},
	} {
		w := g.do("POST", "/v1/rerank", c.order)
		if message, kind, _, code := readError(t, w.Body.Bytes()); w.Code != http.StatusNotFound || code != "unsupported_endpoint" || kind != "invalid_request_error" || message != c.message {
			t.Errorf("%d %s, want %q", w.Code, w.Body, c.message)
		}
	}
	if w := g.do("POST", messages, lesser[messages]); w.Code != http.StatusNotFound || !strings.HasPrefix(w.Body.String(), `{"type":"error","error":{"type":"not_found_error"`) {
		t.Errorf("of messages: %d %s", w.Code, w.Body)
	}
	there = true
	if w := g.do("POST", "/v1/rerank", lesser["/v1/rerank"]); w.Code != http.StatusOK {
		t.Errorf("once they have it: %d %s", w.Code, w.Body)
	}
	if got := g.states(); got != "up up up" {
		t.Errorf("states %s", got)
	}
}

// TestWhatAnEngineLacksIsForgotten after a while.
func TestWhatAnEngineLacksIsForgotten(t *testing.T) {
	var asked []string
	var now atomic.Int64
	g := newRig(t, nil, fleetOf(&asked, says(404, jsonType, `{"detail":"Not Found"}`), good, good), func(o *serving.Options) { o.Clock = func() time.Duration { return time.Duration(now.Load()) } })
	for _, at := range []time.Duration{0, proxy.AbilityMemory - 1, proxy.AbilityMemory} {
		now.Store(int64(at))
		if w := g.do("POST", "/tokenize", lesser["/tokenize"]); w.Code != http.StatusOK {
			t.Fatalf("at %v: %d %s", at, w.Code, w.Body)
		}
	}
	if want := []string{"small@a", "small@b", "small@b", "small@a", "small@b"}; !slices.Equal(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
}

// TestRetriesAreNotSpentOnLackingEngines: they are beside those that failures have.
func TestRetriesAreNotSpentOnLackingEngines(t *testing.T) {
	var asked []string
	lacks := says(404, jsonType, `{"detail":"Not Found"}`)
	g := newRig(t, nil, fleetOf(&asked, lacks, lacks, good), func(o *serving.Options) { o.Config.Retries = config.Retries{Max: 0, BudgetWindow: time.Second} })
	if w := g.do("POST", "/v1/rerank", lesser["/v1/rerank"]); w.Code != http.StatusOK || len(asked) != 3 {
		t.Errorf("%d %s, asked %v", w.Code, w.Body, asked)
	}
}

// TestForms: one with a file passes but for its model, and its answer may be text.
func TestForms(t *testing.T) {
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	file, _ := w.CreateFormFile("file", "a.wav")
	_, _ = file.Write(bytes.Repeat([]byte("RIFF\x00\r\n--"), 20_000))
	_ = w.WriteField("model", "auto")
	_ = w.WriteField("response_format", "srt")
	w.Close()
	sent := form.String()
	for _, answer := range []struct{ kind, body string }{{jsonType, `{"text":"hello there"}`}, {"text/plain; charset=utf-8", "1\n00:00 --> 00:01\nhello\n"}, {"text/plain", "\n"}} {
		var got, kind string
		g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
			body, _ := io.ReadAll(r.Body)
			got, kind = string(body), r.Header.Get("Content-Type")
			if r.ContentLength != int64(len(body)) {
				t.Errorf("length %d of %d", r.ContentLength, len(body))
			}
			return reply(http.StatusOK, answer.kind, io.NopCloser(strings.NewReader(answer.body))), nil
		}), func(o *serving.Options) { o.Backends[smallOnA].Model = "org/whisper" })
		r := httptest.NewRequest("POST", "/v1/audio/transcriptions", strings.NewReader(sent))
		r.Header.Set("Content-Type", w.FormDataContentType())
		out := httptest.NewRecorder()
		g.Handler().ServeHTTP(out, r)
		if out.Code != http.StatusOK || out.Body.String() != answer.body || out.Header().Get("Content-Type") != answer.kind {
			t.Errorf("%d %s %q", out.Code, out.Header().Get("Content-Type"), out.Body)
		}
		if kind != w.FormDataContentType() || got != strings.Replace(sent, "\r\n\r\nauto\r\n", "\r\n\r\norg/whisper\r\n", 1) {
			t.Errorf("the engine got %s, %d bytes of %d", kind, len(got), len(sent))
		}
		g.settled(t, "completed")
	}
}

func TestFaultsOfForms(t *testing.T) {
	g := newRig(t, good, func(o *serving.Options) { o.Config.MaxBody = 1000 })
	const part = "--b\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n--b--\r\n"
	for _, c := range []struct {
		path, kind, body string
		status           int
		code             string
	}{
		{"/v1/audio/transcriptions", "multipart/form-data; boundary=b", fmt.Sprintf(part, "model", "huge"), 404, "model_not_found"},
		{"/v1/audio/transcriptions", "multipart/form-data; boundary=b", fmt.Sprintf(part, "language", "en"), 400, "missing_model"},
		{"/v1/audio/transcriptions", "multipart/form-data; boundary=c", fmt.Sprintf(part, "model", "auto"), 400, "invalid_form"},
		{"/v1/audio/transcriptions", "multipart/form-data", fmt.Sprintf(part, "model", "auto"), 400, "invalid_form"},
		{"/v1/audio/transcriptions", "multipart/form-data; boundary=b", fmt.Sprintf(part, "file", strings.Repeat("x", 2000)), 413, "body_too_large"},
		{"/v1/audio/transcriptions", "text/plain", "x", 415, "unsupported_media_type"},
		{"/v1/audio/transcriptions", "multipart/mixed; boundary=b", "x", 415, "unsupported_media_type"},
		{chat, "multipart/form-data; boundary=b", fmt.Sprintf(part, "model", "auto"), 415, "unsupported_media_type"},
	} {
		w := g.do("POST", c.path, c.body, "Content-Type", c.kind)
		if _, _, _, code := readError(t, w.Body.Bytes()); w.Code != c.status || code != c.code {
			t.Errorf("%s %s: %d %s, want %d %s", c.path, c.kind, w.Code, w.Body, c.status, c.code)
		}
	}
}

// TestUpstreamsThatMoveAreAskedAgain: another engine may have what the one before lacked.
func TestUpstreamsThatMoveAreAskedAgain(t *testing.T) {
	var asked []string
	w := &ward{}
	g := newRig(t, nil, fleetOf(&asked, says(404, jsonType, `{"detail":"Not Found"}`), good, good), withReloader(w))
	g.do("POST", "/tokenize", lesser["/tokenize"])
	w.change.Applied = []string{"serving.upstreams.small@a.url"}
	if _, err := g.Reload("test"); err != nil {
		t.Fatal(err)
	}
	g.do("POST", "/tokenize", lesser["/tokenize"])
	if want := []string{"small@a", "small@b", "small@a", "small@b"}; !slices.Equal(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
}
