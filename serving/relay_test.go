package serving_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gearshift/serving"
)

// multimodal has what a router that decodes and encodes would change.
const multimodal = "{\"model\":\"auto\", \"temperature\":1.0e-0,\n\"seed\":12345678901234567890,\"unknown\":{\"b\":1,\"a\":[ ]}," +
	`"messages":[{"role":"user","content":[{"type":"text","text":"caf\u00e9 \/ <b>"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA\/=="}},{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}]}]}`

func TestBodiesPassUnharmed(t *testing.T) {
	var got, path string
	var header http.Header
	backend := transport(func(r *http.Request) (*http.Response, error) {
		b, err := io.ReadAll(r.Body)
		if err != nil || int64(len(b)) != r.ContentLength {
			t.Errorf("read %d of %d bytes: %v", len(b), r.ContentLength, err)
		}
		got, path, header = string(b), r.URL.Path, r.Header
		return says(http.StatusOK, jsonType, " "+fine+"\n")(r)
	})
	g := newRig(t, backend, func(o *serving.Options) { o.Backends[smallOnA].Model = "facebook/opt-125m" })
	for _, p := range []string{chat, "/v1/completions"} {
		w := g.do("POST", p, multimodal, "Traceparent", "00-1", "Connection", "X-Private", "X-Private", "1",
			"Accept-Encoding", "gzip", "X-Gearshift-Task", "copy", "X-Gearshift-Min-Quality", "0.5", "X-Request-Id", "mine")
		if want := strings.Replace(multimodal, `"auto"`, `"facebook/opt-125m"`, 1); got != want || path != p {
			t.Errorf("to %s:\n got %s\nwant %s", path, got, want)
		}
		if w.Body.String() != " "+fine+"\n" {
			t.Errorf("the answer changed: %q", w.Body)
		}
	}
	if header.Get("Traceparent") != "00-1" || header.Get("X-Request-Id") != "mine" {
		t.Errorf("header %v", header)
	}
	for _, name := range []string{"Connection", "X-Private", "Accept-Encoding", "X-Gearshift-Task", "X-Gearshift-Min-Quality"} {
		if header.Get(name) != "" {
			t.Errorf("%s went upstream: %v", name, header)
		}
	}
}

func TestHeadersOfAnswers(t *testing.T) {
	backend := transport(func(r *http.Request) (*http.Response, error) {
		response := reply(http.StatusOK, jsonType, io.NopCloser(strings.NewReader(fine)))
		response.Header["X-Ratelimit-Remaining"] = []string{"9"}
		response.Header["X-Request-Id"] = []string{"theirs"}
		response.Header["Set-Cookie"] = []string{"a=b"}
		response.Header["Connection"] = []string{"close"}
		response.Header["X-Gearshift-Variant"] = []string{"a router behind"}
		return response, nil
	})
	g := newRig(t, backend)
	h := g.do("POST", chat, ask, "X-Request-Id", "mine").Header()
	for name, want := range map[string]string{
		"X-Request-Id": "mine", "X-Gearshift-Variant": "small", "X-Gearshift-Replica": "small@a", "X-Gearshift-Policy": "wants@3",
		"X-Ratelimit-Remaining": "9", "Set-Cookie": "", "Connection": "", "X-Gearshift-Fallback": "", "Content-Type": jsonType,
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if h.Get("X-Gearshift-Overhead-Us") == "" {
		t.Error("no overhead")
	}
	// An ID that would break a log or a header is replaced.
	if id := g.do("POST", chat, ask, "X-Request-Id", "a b").Header().Get("X-Request-Id"); len(id) != 32 {
		t.Errorf("request ID %q", id)
	}
}

// TestEventsArePassedOnAtOnce has a replica that sends an event only after the
// client has received the one before.
func TestEventsArePassedOnAtOnce(t *testing.T) {
	received := make(chan struct{})
	backend := transport(func(r *http.Request) (*http.Response, error) {
		body, out := io.Pipe()
		go func() {
			for _, event := range []string{"one", "two", "three"} {
				_, _ = io.WriteString(out, `data: {"choices":[{"delta":{"content":"`+event+`"}}]}`+"\n\n")
				<-received
			}
			_, _ = io.WriteString(out, "data: [DONE]\n\n")
			out.Close()
		}()
		return reply(http.StatusOK, eventType, body), nil
	})
	g := newRig(t, backend)
	server := httptest.NewServer(g)
	defer server.Close()
	response, err := http.Post(server.URL+chat, jsonType, strings.NewReader(ask))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	var events int
	for lines.Scan() {
		if strings.Contains(lines.Text(), `"content"`) {
			events++
			received <- struct{}{}
		}
	}
	if events != 3 || lines.Err() != nil || response.Header.Get("Content-Type") != eventType || response.Header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("%d events, error %v, header %v", events, lines.Err(), response.Header)
	}
	<-g.returned
	g.settled(t, "completed")
}

// erred is a stream whose next event is an error of the status.
func erred(status int) string {
	return fmt.Sprintf(`data: {"error":{"message":"x","code":%d}}`, status) + "\n\n" + done
}

// failedGeneration is what TGI says, with 424, where its model fails.
const failedGeneration = `{"error":"Request failed during generation: Server error: out of memory","error_type":"generation"}`

// overlong is how older servers of llama.cpp say within a stream
// that they cannot answer.
const overlong = `error: {"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}` + "\n\n" + done

func TestAnswersThatAreErrors(t *testing.T) {
	const theirs = `{"error":{"message":"too long","type":"invalid_request_error","param":null,"code":null}}`
	for _, c := range []struct {
		name       string
		status     int
		kind, body string
		wantStatus int
		wantBody   string // empty: an error of the router's own
		outcome    string
	}{
		{"client's fault", 400, jsonType, theirs, 400, theirs, "refused"},
		{"their fault", 500, jsonType, theirs, 500, theirs, "failed"},
		{"a generation that failed", 424, jsonType, failedGeneration, 424, failedGeneration, "failed"},
		{"an engine behind it that is silent", 408, jsonType, theirs, 408, theirs, "failed"},
		{"their limit", 429, jsonType, theirs, 429, theirs, "failed"},
		{"error in a success", 200, jsonType, theirs, 200, theirs, "failed"},
		{"client's fault in a stream", 200, eventType, erred(400), 200, erred(400), "refused"},
		{"client's fault in a stream, too late", 200, eventType, token + erred(400), 200, token + erred(400), "failed"},
		{"client's fault in a stream, in a field of its own", 200, eventType, overlong, 200, overlong, "refused"},
		{"an event without data", 200, eventType, "data: \n\n" + token + "data:\n\n" + done, 200, "data: \n\n" + token + "data:\n\n" + done, "completed"},
		{"their limit in a stream", 200, eventType, erred(429), 200, erred(429), "failed"},
		{"their fault in a stream", 200, eventType, erred(500), 200, erred(500), "failed"},
		{"a page in between", 502, "text/html", "<html>", 502, "", "failed"},
		{"a page for the client", 403, "text/html", "<html>", 403, "", "refused"},
		{"redirect", 307, "text/plain", "", 502, "", "failed"},
		{"a text for an answer", 200, "text/plain", "Traceback", 502, "", "failed"},
		{"nothing sound, of no type", 200, "", "[]", 502, "", "failed"},
		{"an answer of no type", 200, "", fine, 200, fine, "completed"},
		{"a long text that ends too soon", 200, "text/plain", long, 200, long, "failed"},
		{"vectors in bytes", 200, "application/octet-stream", "\x01\x02", 200, "\x01\x02", "completed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, says(c.status, c.kind, c.body))
			w := g.do("POST", chat, ask)
			if w.Code != c.wantStatus {
				t.Errorf("status %d, want %d", w.Code, c.wantStatus)
			}
			if c.wantBody == "" {
				readError(t, w.Body.Bytes())
			} else if w.Body.String() != c.wantBody {
				t.Errorf("body %s", w.Body)
			}
			g.settled(t, c.outcome)
		})
	}
}

// What a replica says in plain text is the message of the error, and what it says in
// JSON of another type passes.
func TestTheReasonOfAReplicaReachesTheClient(t *testing.T) {
	for _, c := range []struct{ kind, text, want string }{
		{"text/plain; charset=utf-8", "  too long\n", "the replica answered Bad Request: too long"},
		{"text/plain", "", "the replica answered Bad Request"},
		{"text/html", "<html>too long", "the replica answered Bad Request"},
		{"text/plain", strings.Repeat("x", 20<<10) + "end", strings.Repeat("x", 100) + "end"},
	} {
		w := newRig(t, says(http.StatusBadRequest, c.kind, c.text)).do("POST", chat, ask)
		if message, kind, _, _ := readError(t, w.Body.Bytes()); !strings.HasSuffix(message, c.want) || len(message) > 2000 || kind != "invalid_request_error" || w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s: %s", c.kind, w.Code, kind, message)
		}
	}
	// Of one that is busy the answer is read only if it is the last.
	w := newRig(t, says(http.StatusServiceUnavailable, "text/plain", "no healthy upstream")).do("POST", chat, ask)
	if message, kind, _, _ := readError(t, w.Body.Bytes()); message != "the replica answered Service Unavailable: no healthy upstream" || kind != "server_error" || w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s: %s", w.Code, kind, message)
	}
	const problem = `{"title":"too long"}`
	if w := newRig(t, says(http.StatusBadRequest, "application/problem+json", problem)).do("POST", chat, ask); w.Code != http.StatusBadRequest || w.Body.String() != problem {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

// breaks is a body that fails after its text.
type breaks struct {
	io.Reader
	err error
}

func (b breaks) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		err = b.err
	}
	return n, err
}
func (breaks) Close() error { return nil }

// slow is an error that is a timeout.
type slow struct{}

func (slow) Error() string { return "slow" }
func (slow) Timeout() bool { return true }

// long is the beginning of an answer in one piece that is longer than what the
// router holds back.
var long = `{"id":"` + strings.Repeat("x", 64<<10)

func TestAnswersThatBreakOff(t *testing.T) {
	const event = `data: {"choices":[{"delta":{"content":"one"}}]}` + "\n\n"
	for _, c := range []struct {
		name, kind, text string
		err              error
		outcome, tail    string
		whole            bool // nothing had gone out: an error could take its place
	}{
		{"stream", eventType, event, errors.New("reset"), "failed", `"code":"upstream_broke_off"`, false},
		{"silent stream", eventType, event, slow{}, "timed out", `"code":"upstream_timeout"`, false},
		{"within an event", eventType, event + "data: {", errors.New("reset"), "failed", "data: {", false},
		{"before the first event", eventType, "", errors.New("reset"), "failed", `"code":"upstream_unavailable"`, true},
		{"one piece", jsonType, fine[:40], errors.New("reset"), "failed", `"code":"upstream_unavailable"`, true},
		{"one long piece", jsonType, long, errors.New("reset"), "failed", long[:100], false},
		{"one piece, nothing yet", jsonType, "", slow{}, "timed out", `"code":"upstream_timeout"`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, transport(func(*http.Request) (*http.Response, error) {
				r := reply(http.StatusOK, c.kind, breaks{strings.NewReader(c.text), c.err})
				r.Header.Set("Content-Encoding", "identity")
				return r, nil
			}))
			server := httptest.NewServer(g)
			defer server.Close()
			response, err := http.Post(server.URL+chat, jsonType, strings.NewReader(ask))
			if err != nil {
				// Less than the server's buffer had been written.
				response = &http.Response{Body: http.NoBody}
				if c.kind == eventType || c.whole {
					t.Fatal(err)
				}
				c.tail = ""
			}
			defer response.Body.Close()
			text, readErr := io.ReadAll(response.Body)
			if got := strings.TrimSpace(string(text)); !strings.Contains(got, c.tail) {
				t.Errorf("got %q, want %q at its end", got, c.tail)
			}
			if c.whole {
				readError(t, text)
				if h := response.Header; h.Get("Content-Encoding") != "" || h.Get("Content-Type") != jsonType {
					t.Errorf("the header describes the answer that did not come: %v", h)
				}
			}
			if broken := err != nil || readErr != nil; broken == c.whole {
				t.Errorf("connection broken %v, want %v", broken, !c.whole)
			}
			if value := <-g.returned; (value == http.ErrAbortHandler) == c.whole {
				t.Errorf("handler ended with %v", value)
			}
			g.settled(t, c.outcome)
		})
	}
}
