package serving_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
	"gearshift/serving/config"
)

// Ollama's stream of a completion with include_usage states a usage of zero in each
// event but the last. That is none: the first token has come when its text has.
func TestUsageOfZeroDoesNotHideTheFirstToken(t *testing.T) {
	const (
		none = `"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`
		one  = `data: {"id":"cmpl-1","object":"text_completion","choices":[{"text":"a","index":0,"finish_reason":null}],` + none + "}\n\n"
		end  = `data: {"id":"cmpl-1","object":"text_completion","choices":[{"text":"","index":0,"finish_reason":"stop"}],` + none + "}\n\n" +
			`data: {"id":"cmpl-1","object":"text_completion","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}` + "\n\n"
	)
	synctest.Test(t, func(t *testing.T) {
		var seen watched
		g := newRig(t, scripted(0, eventType, step{time.Second, one}, step{time.Second, one}, step{time.Second, end}, step{0, done}),
			func(o *serving.Options) { o.Watchers = []serving.Watcher{&seen} })
		w := g.do("POST", completions, `{"model":"auto","stream":true,"stream_options":{"include_usage":true},"prompt":"a"}`)
		if w.Body.String() != one+one+end+done {
			t.Errorf("the client got %q", w.Body)
		}
		if first := seen.works[0].FirstToken; first != time.Second {
			t.Errorf("the first token after %v, want 1s", first)
		}
		if tokens := seen.results[0].Tokens; tokens != 2 {
			t.Errorf("%d tokens, want 2", tokens)
		}
		g.settled(t, "completed")
	})
}

// An engine whose every generation fails is taken out, though it says so with a 4xx.
func TestAnEngineWhoseGenerationsFailIsEjected(t *testing.T) {
	g := newRig(t, good, func(o *serving.Options) {
		o.Backends[smallOnA].Transport = says(http.StatusFailedDependency, jsonType, failedGeneration)
	})
	for range 2 {
		if w := g.do("POST", chat, ask); w.Code != http.StatusFailedDependency || w.Body.String() != failedGeneration {
			t.Errorf("the client got %d %s", w.Code, w.Body)
		}
	}
	for range config.Default().Health.Failures - 2 { // another is asked, too
		if w := g.do("POST", chat, ask); w.Code != http.StatusOK {
			t.Errorf("the client got %d %s", w.Code, w.Body)
		}
	}
	if states := g.states(); !strings.HasPrefix(states, "ejected/error_alone") {
		t.Errorf("the replicas are %s", states)
	}
	if w := g.do("POST", chat, ask); w.Code != http.StatusOK || w.Header().Get("X-Gearshift-Replica") != "small@b" {
		t.Errorf("after that %d from %s", w.Code, w.Header().Get("X-Gearshift-Replica"))
	}
}

// Ollama ends the body of a stream properly also where its model failed midway: only
// that no event was the last one tells.
func TestAStreamThatStopsWithoutAnEndHasBrokenOff(t *testing.T) {
	const (
		nothing = `data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":null}]}` + "\n\n"
		stopped = `data: {"choices":[{"index":0,"delta":{"content":"one"},"finish_reason":"stop"}]}` + "\n\n"
		delta   = "event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","delta":"one"}` + "\n\n"
		last    = "event: response.completed\n" + `data: {"type":"response.completed","response":{}}` + "\n\n"
	)
	for _, c := range []struct {
		name, body, outcome string
	}{
		{"within its text", token + nothing, "failed"},
		{"after the reason of its end", token + stopped, "completed"},
		{"after its end", token + done, "completed"},
		{"after its end, whose line has none", token + strings.TrimSpace(done), "completed"},
		{"within a line", token + `data: {"choices":[{"del`, "failed"},
		{"a response within its text", delta, "failed"},
		{"a response after its end", delta + last, "completed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", eventType)
				w.(http.Flusher).Flush() // no length, but chunks
				_, _ = io.WriteString(w, c.body)
			}))
			defer engine.Close()
			g := newRig(t, to(engine))
			w, broken := g.visit(askStream)
			if !strings.HasPrefix(w.Body.String(), c.body) {
				t.Errorf("the client got %q", w.Body)
			}
			failed, said := c.outcome == "failed", c.outcome == "failed" && strings.HasSuffix(c.body, "\n")
			if broken != failed || strings.Contains(w.Body.String(), "upstream_broke_off") != said {
				t.Errorf("broken %v, the client got %q", broken, w.Body)
			}
			g.settled(t, c.outcome)
		})
	}
}

// vLLM says of a request that it gives up, as where it shuts down, no more than that it
// ended with "abort". Before any text another replica can still answer.
func TestWhatAnEngineGivesUpIsNoAnswer(t *testing.T) {
	const (
		role    = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
		abort   = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"abort"}]}` + "\n\n" + done
		inPiece = `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a b"},"finish_reason":"abort"}],"usage":{"completion_tokens":2}}`
	)
	for _, c := range []struct {
		name, kind, body string
	}{
		{"a stream, at once", eventType, role + abort},
		{"a stream within its text, of which nothing has gone out", eventType, role + token + abort},
		{"an answer in one piece", jsonType, inPiece},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []string
			g := newRig(t, nil, fleetOf(&asked, says(http.StatusOK, c.kind, c.body), good, good))
			w, _ := g.visit(askStream)
			if !slices.Equal(asked, []string{"small@a", "small@b"}) || w.Body.String() != fine {
				t.Errorf("asked %v, the client got %q", asked, w.Body)
			}
			g.settled(t, "completed")
		})
	}
}

// llama.cpp and Ollama have 501 for a client that asks a chat model for vectors: they
// are well, and others may still chat.
func TestWhatAnEngineDoesNotDoIsNoFailureOfIt(t *testing.T) {
	const theirs = `{"error":{"code":501,"message":"This server does not support embeddings. Start it with --embeddings","type":"not_supported_error"}}`
	g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == embeddings {
			return says(http.StatusNotImplemented, jsonType, theirs)(r)
		}
		return good(r)
	}))
	for range config.Default().Health.Failures {
		if w := g.do("POST", embeddings, `{"model":"small","input":"a"}`); w.Code != http.StatusNotImplemented || w.Body.String() != theirs {
			t.Errorf("the client got %d %s", w.Code, w.Body)
		}
	}
	if states := g.states(); strings.Contains(states, "ejected") {
		t.Errorf("after that %s", states)
	}
	if got, want := g.counted("gearshift_requests_total"), `gearshift_requests_total{outcome="refused",task="chat",variant="small"} 5`; !slices.Equal(got, []string{want}) {
		t.Errorf("counted %q, want %q", got, want)
	}
}

// keyed is a backend to which the client's own credentials do not go, unless it forwards.
type keyed struct {
	transport
	forwards bool
}

func (k keyed) ForwardsAuthorization() bool { return k.forwards }

// An engine that does not know the router's key says so at once, and would attract every
// request. Where the client's own key goes there, that is the client's to mend.
func TestAKeyThatAnEngineDoesNotKnow(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		testAKeyThatAnEngineDoesNotKnow(t, status)
	}
}

func testAKeyThatAnEngineDoesNotKnow(t *testing.T, status int) {
	t.Helper()
	unknown := says(status, jsonType, `{"error":"Unauthorized"}`) // vLLM's
	for _, forwards := range []bool{false, true} {
		var asked []string
		g := newRig(t, nil, fleetOf(&asked, unknown, good, good), func(o *serving.Options) {
			o.Backends[smallOnA].Transport = keyed{o.Backends[smallOnA].Transport.(transport), forwards}
		})
		want, states := http.StatusOK, "ejected/failures up up"
		if forwards {
			want, states = status, "up up up"
		}
		for range config.Default().Health.Failures {
			if w := g.do("POST", chat, ask); w.Code != want {
				t.Errorf("forwards %v: the client got %d, want %d", forwards, w.Code, want)
			}
		}
		if got := g.states(); got != states {
			t.Errorf("forwards %v: the replicas are %s, want %s", forwards, got, states)
		}
	}
}

// Where no engine knows the router's key, the client is told neither that its own is at
// fault nor anything of the router's.
func TestTheRoutersKeyIsNotTheClientsMatter(t *testing.T) {
	secret := says(http.StatusUnauthorized, jsonType, `{"error":{"message":"unknown key sk-...cret"}}`)
	var asked []string
	g := newRig(t, nil, fleetOf(&asked, secret, secret, secret), func(o *serving.Options) {
		for i := range o.Backends {
			o.Backends[i].Transport = keyed{o.Backends[i].Transport.(transport), false}
		}
	})
	w := g.do("POST", chat, ask)
	_, kind, _, code := readError(t, w.Body.Bytes())
	if w.Code != http.StatusBadGateway || kind != "server_error" || code != "upstream_unauthorized" || strings.Contains(w.Body.String(), "sk-") {
		t.Errorf("the client got %d %s", w.Code, w.Body)
	}
	g.settled(t, "failed")
}
