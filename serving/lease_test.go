package serving_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/work"
)

// endless is a stream that sends one event and then nothing until the
// request's context ends.
func endless(r *http.Request) (*http.Response, error) {
	body, out := io.Pipe()
	context.AfterFunc(r.Context(), func() { out.CloseWithError(context.Cause(r.Context())) })
	go io.WriteString(out, `data: {"choices":[{"delta":{"content":"one"}}]}`+"\n\n")
	return reply(http.StatusOK, eventType, body), nil
}

// mute never answers.
func mute(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

func TestAClientThatLeavesCancelsTheUpstream(t *testing.T) {
	for name, backend := range map[string]transport{"before the answer": mute, "within the answer": endless} {
		t.Run(name, func(t *testing.T) {
			begun := make(chan struct{}, 1)
			g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
				begun <- struct{}{}
				return backend(r)
			}))
			server := httptest.NewServer(g)
			defer server.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				r, _ := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+chat, strings.NewReader(ask))
				if response, err := http.DefaultClient.Do(r); err == nil {
					_, _ = io.Copy(io.Discard, response.Body)
					response.Body.Close()
				}
			}()
			<-begun
			if n := g.core.Ledger().InFlight(); n != 1 {
				t.Errorf("%d in flight", n)
			}
			cancel()
			<-gone
			<-g.returned
			g.settled(t, "cancelled")
		})
	}
}

func TestARequestHasItsTime(t *testing.T) {
	for name, backend := range map[string]transport{"before the answer": mute, "within the answer": endless} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, backend, func(o *serving.Options) { o.Config.Timeouts.Total = 30 * time.Second })
				start := time.Now()
				w := httptest.NewRecorder()
				r := httptest.NewRequest("POST", chat, strings.NewReader(ask))
				func() {
					defer func() { _ = recover() }()
					g.ServeHTTP(w, r)
				}()
				if took := time.Since(start); took != 30*time.Second {
					t.Errorf("took %v", took)
				}
				if name == "before the answer" && w.Code != http.StatusGatewayTimeout {
					t.Errorf("status %d", w.Code)
				}
				if !strings.Contains(w.Body.String(), `"total_timeout"`) {
					t.Errorf("body %s", w.Body)
				}
				g.settled(t, "timed out")
			})
		})
	}
}

func TestPanicsEndTheLease(t *testing.T) {
	for name, backend := range map[string]transport{
		"before the answer": func(*http.Request) (*http.Response, error) { panic("boom") },
		"within the answer": func(*http.Request) (*http.Response, error) {
			return reply(http.StatusOK, eventType, breaks{reads(func([]byte) (int, error) { panic("boom") }), nil}), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, backend)
			w := g.do("POST", chat, ask)
			if _, kind, _, code := readError(t, w.Body.Bytes()); w.Code != http.StatusInternalServerError || kind != "server_error" || code != "internal_error" {
				t.Errorf("status %d, %s", w.Code, w.Body)
			}
			if !strings.Contains(g.logs.String(), "boom") {
				t.Error("the log says nothing of it")
			}
			g.settled(t, "panicked")
		})
	}
	t.Run("after a part of the answer", func(t *testing.T) {
		var n int
		g := newRig(t, transport(func(*http.Request) (*http.Response, error) {
			return reply(http.StatusOK, eventType, breaks{reads(func(p []byte) (int, error) {
				if n++; n > 1 {
					panic("boom")
				}
				return copy(p, "data: {}\n\n"), nil
			}), nil}), nil
		}))
		server := httptest.NewServer(g)
		defer server.Close()
		response, err := http.Post(server.URL+chat, jsonType, strings.NewReader(ask))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if _, err := io.ReadAll(response.Body); err == nil {
			t.Error("the client took a part for the whole")
		}
		if value := <-g.returned; value != http.ErrAbortHandler {
			t.Errorf("handler ended with %v", value)
		}
		g.settled(t, "panicked")
	})
}

// reads is an io.Reader made of a function.
type reads func([]byte) (int, error)

func (f reads) Read(p []byte) (int, error) { return f(p) }

func refused() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
}

func TestUpstreamsThatFail(t *testing.T) {
	for _, c := range []struct {
		err     error
		status  int
		code    string
		outcome string
	}{
		{refused(), http.StatusBadGateway, "upstream_unavailable", "failed"},
		{io.ErrUnexpectedEOF, http.StatusBadGateway, "upstream_unavailable", "failed"},
		{slow{}, http.StatusGatewayTimeout, "upstream_timeout", "timed out"},
	} {
		g := newRig(t, transport(func(*http.Request) (*http.Response, error) { return nil, c.err }))
		w := g.do("POST", chat, `{"model":"large"}`)
		if _, _, _, code := readError(t, w.Body.Bytes()); w.Code != c.status || code != c.code {
			t.Errorf("%v: status %d, code %q", c.err, w.Code, code)
		}
		g.settled(t, c.outcome)
	}
}

func TestAnotherReplicaTakesOverWhatCouldNotBeSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := map[string]int{}
		at := func(name string, rt transport) serving.Backend {
			return serving.Backend{Transport: transport(func(r *http.Request) (*http.Response, error) {
				calls[name]++
				return rt(r)
			})}
		}
		g := newRig(t, nil, func(o *serving.Options) {
			o.Config.Cooldown = 5 * time.Second
			o.Backends = []serving.Backend{
				at("a", func(*http.Request) (*http.Response, error) { return nil, refused() }),
				at("b", says(http.StatusOK, jsonType, fine)),
				at("large", says(http.StatusOK, jsonType, fine)),
			}
		})
		w := g.do("POST", chat, ask)
		if w.Code != http.StatusOK || w.Header().Get("X-Gearshift-Replica") != "small@b" || calls["a"] != 1 || calls["b"] != 1 {
			t.Fatalf("status %d, replica %q, calls %v", w.Code, w.Header().Get("X-Gearshift-Replica"), calls)
		}
		g.settled(t, "completed")
		// While it cools down nothing is sent there, and the rest is ready.
		if g.do("POST", chat, ask); calls["a"] != 1 || g.Status().Replicas[smallOnA].Up || g.do("GET", "/readyz", "").Code != http.StatusOK {
			t.Errorf("calls %v, status %+v", calls, g.Status().Replicas)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if !g.Status().Replicas[smallOnA].Up {
			t.Error("still down after the cooldown")
		}
	})
}

func TestNoReplicaLeft(t *testing.T) {
	g := newRig(t, transport(func(*http.Request) (*http.Response, error) { return nil, refused() }))
	// The first request tries every replica.
	for _, want := range []int{http.StatusBadGateway, http.StatusServiceUnavailable} {
		w := g.do("POST", chat, ask)
		_, _, _, code := readError(t, w.Body.Bytes())
		if w.Code != want || (w.Code == http.StatusServiceUnavailable) != (code == "no_replica") {
			t.Errorf("status %d, code %q, want %d", w.Code, code, want)
		}
		if (w.Header().Get("Retry-After") != "") != (want == http.StatusServiceUnavailable) {
			t.Errorf("Retry-After %q at status %d", w.Header().Get("Retry-After"), w.Code)
		}
	}
	if w := g.do("GET", "/readyz", ""); w.Code != http.StatusServiceUnavailable {
		t.Errorf("ready with status %d", w.Code)
	}
	if w := g.do("GET", "/healthz", ""); w.Code != http.StatusOK {
		t.Errorf("alive with status %d", w.Code)
	}
	if n := g.core.Ledger().InFlight(); n != 0 {
		t.Errorf("%d in flight", n)
	}
}

func TestAFullFleetAsksForPatience(t *testing.T) {
	g := newRig(t, says(http.StatusOK, jsonType, fine), func(o *serving.Options) {
		o.Config.RetryAfter = 1500 * time.Millisecond
		o.Config.Overload.MaxQueue = 0
	})
	for range 2 { // the limit of large@a
		if _, err := g.core.Route(large, &fleet.Request{}, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	w := g.do("POST", chat, `{"model":"large"}`)
	if _, kind, _, code := readError(t, w.Body.Bytes()); w.Code != http.StatusTooManyRequests || kind != "rate_limit_error" || code != "saturated" || w.Header().Get("Retry-After") != "2" {
		t.Errorf("status %d, header %v, %s", w.Code, w.Header(), w.Body)
	}
	if g.do("POST", chat, ask).Code != http.StatusOK || g.Status().Rejected != 1 {
		t.Errorf("status %+v", g.Status())
	}
}

func TestFallbacksAreSaid(t *testing.T) {
	g := newRig(t, says(http.StatusOK, jsonType, fine), func(o *serving.Options) { o.Router = testRouter(t, nil) })
	w := g.do("POST", chat, ask)
	g.do("POST", chat, ask)
	if w.Header().Get("X-Gearshift-Fallback") != router.ReasonMissing || w.Header().Get("X-Gearshift-Policy") != "first" {
		t.Errorf("header %v", w.Header())
	}
	if n := strings.Count(g.logs.String(), "does not route"); n != 1 || g.Status().Fallbacks != 2 {
		t.Errorf("logged %d times, counted %d", n, g.Status().Fallbacks)
	}
}

// ended counts the requests that a watcher hears of.
type ended []work.Outcome

func (e *ended) Ended(w *work.Work, r work.Result) {
	if !w.Lease.End() { // an ended lease gives nothing back
		*e = append(*e, r.Outcome)
	}
}

func TestWatchersHearOfEachRequestOnceItsPlaceIsFree(t *testing.T) {
	var heard ended
	g := newRig(t, says(http.StatusOK, jsonType, fine), func(o *serving.Options) { o.Watchers = []serving.Watcher{&heard} })
	g.do("POST", chat, ask)
	g.do("POST", chat, `{"model":"none"}`) // never routed
	g.do("POST", chat, ask)
	if len(heard) != 2 || heard[0] != work.Completed || heard[1] != work.Completed {
		t.Errorf("heard %v, want two that completed", heard)
	}
}
