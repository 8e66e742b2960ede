package serving_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gearshift/serving"
	"gearshift/serving/backend"
)

// TestAClientThatLeavesReachesTheEngine has a real engine behind a real upstream:
// its own request ends within 100 ms of the client's leaving, whether it has begun
// to answer or not.
func TestAClientThatLeavesReachesTheEngine(t *testing.T) {
	for _, c := range []struct{ name, path, body string }{
		{"chat", chat, ask},
		{"chat stream", chat, askStream},
		{"embeddings", embeddings, `{"model":"auto","input":"a"}`},
		{"response", responses, `{"model":"auto","input":"a"}`},
		{"response stream", responses, `{"model":"auto","input":"a","stream":true}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			begun, ended := make(chan struct{}), make(chan time.Time, 1)
			engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if strings.Contains(c.name, "stream") {
					w.Header().Set("Content-Type", eventType)
					_, _ = io.WriteString(w, token)
					w.(http.Flusher).Flush()
				}
				begun <- struct{}{}
				<-r.Context().Done()
				ended <- time.Now()
			}))
			defer engine.Close()
			upstream, err := backend.NewUpstream(backend.UpstreamConfig{URL: engine.URL})
			if err != nil {
				t.Fatal(err)
			}
			defer upstream.Close()
			g := newRig(t, upstream)
			router := httptest.NewServer(g)
			defer router.Close()
			// This machine may be busy with something else for a while, but not each time.
			var took []time.Duration
			for range 5 {
				ctx, leave := context.WithCancel(t.Context())
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					r, _ := http.NewRequestWithContext(ctx, http.MethodPost, router.URL+c.path, strings.NewReader(c.body))
					if response, err := http.DefaultClient.Do(r); err == nil {
						_, _ = io.Copy(io.Discard, response.Body)
						response.Body.Close()
					}
				}()
				<-begun
				left := time.Now()
				leave()
				took = append(took, (<-ended).Sub(left))
				<-gone
				<-g.returned
				if n := g.core.Ledger().InFlight(); n != 0 {
					t.Errorf("%d in flight", n)
				}
				if took[len(took)-1] <= 100*time.Millisecond {
					return
				}
			}
			t.Errorf("the engine heard of it after %v", took)
		})
	}
}

// TestAClientThatLeavesIsNotTriedAgain: nor is the replica blamed.
func TestAClientThatLeavesIsNotTriedAgain(t *testing.T) {
	var asked []string
	ctx, leave := context.WithCancel(t.Context())
	g := newRig(t, nil, fleetOf(&asked, func(r *http.Request) (*http.Response, error) {
		leave()
		return mute(r)
	}, good, good), func(o *serving.Options) { o.Config.Retries.HedgeAfter = time.Minute })
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, chat, strings.NewReader(ask))
	g.Handler().ServeHTTP(httptest.NewRecorder(), r)
	if len(asked) != 1 || strings.Contains(g.logs.String(), "replica failed") {
		t.Errorf("asked %v, logged %s", asked, g.logs)
	}
	g.settled(t, "cancelled")
}
