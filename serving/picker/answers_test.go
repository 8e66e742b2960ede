package picker_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"gearshift/serving"
	"gearshift/serving/work"
)

// events answers with a stream of n tokens, the last event with its usage.
func events(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range n {
			fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"t%d\"}}]}\n\n", i)
			http.NewResponseController(w).Flush()
		}
		fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n")
		fmt.Fprintf(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":%d,\"total_tokens\":9}}\n\ndata: [DONE]\n\n", 2*n)
	}
}

const askStream = `{"model":"auto","stream":true,"messages":[{"role":"user","content":"hi"}]}`

// TestStreamedAnswersAreMetered reads usage and the first token's time from the pieces of a stream.
func TestStreamedAnswersAreMetered(t *testing.T) {
	g := newRig(t, nil)
	g.answer = events(7)
	for _, piece := range []int{5, 300, 16 << 10} {
		way := g.gateway()
		way.Piece = piece
		w := send(way, "POST", chat, askStream)
		if w.Code != 200 || !strings.HasSuffix(w.Body.String(), "data: [DONE]\n\n") || strings.Count(w.Body.String(), `"content":"t`) != 7 {
			t.Fatalf("pieces of %d: got %d %s", piece, w.Code, w.Body)
		}
		if r := <-g.ended; r.Outcome != work.Completed || r.Tokens != 14 || r.Reported {
			t.Errorf("pieces of %d: the work ended as %+v, want 14 tokens", piece, r)
		}
	}
	g.idle(t)
}

// TestSubsets picks from the gateway's subset, and refuses an empty one.
func TestSubsets(t *testing.T) {
	g := newRig(t, nil)
	for _, c := range []struct {
		name   string
		subset []string
		engine string
	}{
		{"of both sizes", []string{g.at(smallB), g.at(largeB)}, "large@b"},
		{"of one size", []string{"10.9.9.9:1", g.at(smallB)}, "small@b"},
		{"in one text", []string{g.at(smallA) + ", " + g.at(largeB)}, "large@b"},
		{"empty", []string{}, ""},
		{"of strangers", []string{"10.9.9.9:8000"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			way := g.gateway()
			way.Subset = c.subset
			w := send(way, "POST", chat, ask)
			h := w.Result().Header
			if got := h.Get("X-Engine"); got != c.engine {
				t.Fatalf("%q answered, want %q: %d %s", got, c.engine, w.Code, w.Body)
			}
			if c.engine != "" {
				<-g.ended
				return
			}
			if w.Code != 503 || h.Get("x-llm-d-request-dropped-reason") != "rejected-no-endpoints" || h.Get("Retry-After") == "" {
				t.Errorf("got %d, %q, Retry-After %q; want 503, rejected-no-endpoints and a time", w.Code, h.Get("x-llm-d-request-dropped-reason"), h.Get("Retry-After"))
			}
		})
	}
	g.idle(t)
}

// TestAFullFleetRefuses answers 429 with the reason and the time to wait, in OpenAI's format.
func TestAFullFleetRefuses(t *testing.T) {
	g := newRig(t, func(o *serving.Options) { o.Config.Overload.MaxQueue = 0 })
	hold, begun := make(chan struct{}), make(chan struct{}, 8)
	g.answer = func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		<-hold
		whole(w, r)
	}
	done := make(chan struct{})
	for range 8 {
		go func() { send(g.gateway(), "POST", chat, ask); done <- struct{}{} }()
	}
	for range 8 {
		<-begun
	}
	w := send(g.gateway(), "POST", chat, ask)
	h := w.Result().Header
	if w.Code != 429 || h.Get("x-llm-d-request-dropped-reason") != "rejected-saturated" || h.Get("Retry-After") == "" || !strings.Contains(w.Body.String(), `"code":"saturated"`) {
		t.Errorf("got %d %v %s; want 429, rejected-saturated", w.Code, h, w.Body)
	}
	close(hold)
	for range 8 {
		<-done
	}
	g.idle(t)
}

// TestFaultyRequests are answered by the router, and take no place.
func TestFaultyRequests(t *testing.T) {
	g := newRig(t, nil)
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		says                     string
	}{
		{"malformed JSON", "POST", chat, `{"model": "auto", "messages": [`, 400, "invalid_json"},
		{"another model", "POST", chat, `{"model":"gpt-9","messages":[]}`, 404, "model_not_found"},
		{"no body", "POST", chat, "", 400, "invalid_request_error"},
		{"another method", "GET", chat, "", 405, "method_not_allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := send(g.gateway(), c.method, c.path, c.body)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) || w.Result().Header.Get("Content-Type") != "application/json" {
				t.Errorf("got %d %v %s; want %d and %q", w.Code, w.Result().Header, w.Body, c.status, c.says)
			}
		})
	}
	g.idle(t)
}

// TestHeadersOnly answers known paths itself.
func TestHeadersOnly(t *testing.T) {
	g := newRig(t, nil)
	if w := send(g.gateway(), "GET", "/v1/models", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"auto"`) || w.Result().Header.Get("X-Engine") != "" {
		t.Errorf("the models are %d %s, want the router's own list", w.Code, w.Body)
	}
	g.idle(t)
}

// TestAnotherOfThePicked moves the work to the replica that answered, and counts the unreachable one as failed.
func TestAnotherOfThePicked(t *testing.T) {
	g := newRig(t, nil)
	g.engines[largeA].Close()
	w := send(g.gateway(), "POST", chat, ask)
	if h := w.Result().Header; w.Code != 200 || h.Get("X-Engine") != "large@b" || h.Get("X-Gearshift-Replica") != "large@b" {
		t.Errorf("got %d %v, want the answer of large@b", w.Code, h)
	}
	if r := <-g.ended; r.Outcome != work.Completed {
		t.Errorf("the work ended as %v", r.Outcome)
	}
	g.engines[largeB].Close()
	w = send(g.gateway(), "POST", chat, ask)
	if w.Code != 503 {
		t.Errorf("with no engine of the size got %d %s, want the gateway's 503", w.Code, w.Body)
	}
	if r := <-g.ended; r.Outcome != work.Failed {
		t.Errorf("the work ended as %v, want failed", r.Outcome)
	}
	g.idle(t)
}

// TestAReplicaLeavesAsItIsPicked picks another one, since the gateway has no answer yet.
func TestAReplicaLeavesAsItIsPicked(t *testing.T) {
	g := newRig(t, nil)
	g.gone.Store(largeA + 1)
	for _, c := range []string{"large@b", "large@b"} {
		w := send(g.gateway(), "POST", chat, ask)
		if h := w.Result().Header; w.Code != 200 || h.Get("X-Engine") != c || h.Get("X-Gearshift-Replica") != c {
			t.Errorf("got %d %v %s, want the answer of %s", w.Code, h, w.Body, c)
		}
		<-g.ended
	}
	g.idle(t)
}

// TestAnEngineThatLeavesAnswersOn passes an answer that was under way when its engine left the list: whether it still comes is
// the gateway's to see.
func TestAnEngineThatLeavesAnswersOn(t *testing.T) {
	g := newRig(t, nil)
	reached, gone := make(chan struct{}), make(chan struct{})
	g.answer = func(w http.ResponseWriter, r *http.Request) {
		close(reached)
		<-gone
		whole(w, r)
	}
	go func() {
		<-reached
		g.Engines().Vacate(largeA, func() {})
		close(gone)
	}()
	w := send(g.gateway(), "POST", chat, ask)
	if h := w.Result().Header; w.Code != 200 || h.Get("X-Engine") != "large@a" || w.Body.String() != fine {
		t.Errorf("got %d %v %s, want the answer", w.Code, h, w.Body)
	}
	if r := <-g.ended; r.Outcome != work.Completed {
		t.Errorf("the work ended as %v", r.Outcome)
	}
	g.idle(t)
}

// TestAReplicaThatIsOutIsTheLastResort lists one that is out for its health after the one that is picked.
func TestAReplicaThatIsOutIsTheLastResort(t *testing.T) {
	g := newRig(t, nil)
	g.core.Ledger().SetUp(largeB, false)
	g.engines[largeA].Close()
	w := send(g.gateway(), "POST", chat, ask)
	if h := w.Result().Header; w.Code != 200 || h.Get("X-Engine") != "large@b" {
		t.Errorf("got %d %v %s, want the answer of large@b", w.Code, h, w.Body)
	}
	if r := <-g.ended; r.Outcome != work.Completed {
		t.Errorf("the work ended as %v", r.Outcome)
	}
	g.idle(t)
}

// TestErrorsOfEngines pass, in a format that clients understand.
func TestErrorsOfEngines(t *testing.T) {
	g := newRig(t, nil)
	for _, c := range []struct {
		status     int
		kind, body string
		want       int
		says       string
	}{
		{400, "application/json", `{"error":{"message":"no"}}`, 400, `{"error":{"message":"no"}}`},
		{500, "text/html", "<h1>oops</h1>", 500, `"code":"upstream_error"`},
		{503, "text/plain", "upstream connect error", 503, "upstream connect error"},
		{200, "text/html", "<h1>hello</h1>", 502, `"code":"upstream_error"`},
		{401, "application/json", `{"error":{"message":"key"}}`, 401, "key"},
	} {
		g.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			w.Header().Set("Content-Length", strconv.Itoa(len(c.body)))
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}
		w := send(g.gateway(), "POST", chat, ask)
		if length := w.Result().Header.Get("Content-Length"); length != "" && length != strconv.Itoa(w.Body.Len()) {
			t.Errorf("an engine's %d %s: %d bytes, announced as %s", c.status, c.body, w.Body.Len(), length)
		}
		if w.Code != c.want || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("an engine's %d %s: got %d %s, want %d and %q", c.status, c.body, w.Code, w.Body, c.want, c.says)
		}
		<-g.ended
	}
	g.idle(t)
}

// TestAClientLeaves frees the place at once, before the answer and within it.
func TestAClientLeaves(t *testing.T) {
	for name, begins := range map[string]bool{"before its answer": false, "within it": true} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nil)
			reached, left := make(chan struct{}), make(chan struct{})
			g.answer = func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if begins {
					w.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"t\"}}]}\n\n")
					http.NewResponseController(w).Flush()
				}
				close(reached)
				<-left
			}
			ctx, leave := context.WithCancel(context.Background())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				defer func() { _ = recover() }() // a broken answer is one panic of its handler
				r := httptest.NewRequest("POST", chat, strings.NewReader(askStream)).WithContext(ctx)
				r.Header.Set("Content-Type", "application/json")
				g.gateway().ServeHTTP(httptest.NewRecorder(), r)
			}()
			<-reached
			leave()
			<-ended
			if r := <-g.ended; r.Outcome != work.Cancelled {
				t.Errorf("the work ended as %v, want cancelled", r.Outcome)
			}
			g.idle(t)
			close(left)
		})
	}
}
