package serving_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
)

// departing is a client that leaves at a text of its answer.
type departing struct {
	*httptest.ResponseRecorder
	leave func()
	at    string
	fails string // what does at that moment: "write", "flush" or nothing
	gone  bool
}

func (c *departing) Write(p []byte) (int, error) {
	c.gone = c.gone || c.at != "" && strings.Contains(string(p), c.at)
	if c.gone && c.fails == "write" {
		return 0, io.ErrClosedPipe
	}
	return c.ResponseRecorder.Write(p)
}

func (c *departing) FlushError() error {
	c.ResponseRecorder.Flush()
	if !c.gone {
		return nil
	}
	c.leave()
	if c.fails == "flush" {
		return io.ErrClosedPipe
	}
	return nil
}

func (c *departing) Flush() { _ = c.FlushError() }

// An answer takes until its client has all of it, not until its replica lets go.
func TestAnAnswerEndsWithItsLastEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen watched
		g := newRig(t, scripted(0, eventType, step{time.Second, token}, step{time.Second, done + "\n"}),
			func(o *serving.Options) { o.Watchers = []serving.Watcher{&seen} })
		g.do("POST", chat, askStream)
		if took := seen.results[0].Latency; took != 2*time.Second {
			t.Errorf("it took %v, want 2s", took)
		}
	})
}

// Once the last event of a stream has gone out, the client has all that it asked for,
// whatever becomes of the connections.
func TestAStreamDeliveredWholeIsCompleted(t *testing.T) {
	const trailer = ": bye\n\n"
	resets := func(*http.Request) (*http.Response, error) {
		return reply(http.StatusOK, eventType, breaks{strings.NewReader(token + done), errors.New("reset")}), nil
	}
	held := scripted(0, eventType, step{time.Second, token}, step{time.Second, done + "\n"})
	trailing := scripted(0, eventType, step{0, token}, step{0, done + "\n"}, step{0, trailer})
	for _, c := range []struct {
		name    string
		backend transport
		client  departing
		outcome string
	}{
		{"the replica breaks off", resets, departing{}, "completed"},
		{"the replica keeps the connection", held, departing{}, "completed"},
		{"the client leaves", held, departing{at: done}, "completed"},
		{"the client leaves what follows", trailing, departing{at: trailer, fails: "write"}, "completed"},
		{"the client leaves before", held, departing{at: token}, "cancelled"},
		{"the last event cannot be written", held, departing{at: done, fails: "write"}, "cancelled"},
		{"the last event cannot be sent", held, departing{at: done, fails: "flush"}, "cancelled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, c.backend)
				var ctx context.Context
				ctx, c.client.leave = context.WithCancel(t.Context())
				c.client.ResponseRecorder = httptest.NewRecorder()
				start, broken := time.Now(), false
				func() {
					defer func() { broken = recover() != nil }()
					g.Handler().ServeHTTP(&c.client, httptest.NewRequestWithContext(ctx, http.MethodPost, chat, strings.NewReader(askStream)))
				}()
				if broken != (c.outcome != "completed") {
					t.Errorf("connection broken: %v", broken)
				}
				if took := time.Since(start); took > 3*time.Second {
					t.Errorf("took %v", took)
				}
				if text := c.client.Body.String(); strings.Contains(text, "error") || strings.Contains(g.logs.String(), "replica failed") {
					t.Errorf("the client got %q, the log %s", text, g.logs)
				}
				if late := g.counted("gearshift_timeouts_total"); len(late) > 0 {
					t.Errorf("counted %q", late)
				}
				g.settled(t, c.outcome)
			})
		})
	}
}
