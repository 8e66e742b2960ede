package serving_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
)

// TestCaseReadyGraceKeepalive has clients that ask again and again on kept connections, as a load
// balancer's pool does, while the router ends: from the order on each answer says that its
// connection closes, and no request is lost when the listener does.
func TestCaseReadyGraceKeepalive(t *testing.T) {
	g := newRig(t, good, func(o *serving.Options) { o.Config.ReadyGrace = 300 * time.Millisecond })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(ctx, l) }()
	var ordered atomic.Bool
	var before, after atomic.Int64
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			transport := &http.Transport{DialContext: (&net.Dialer{Timeout: 300 * time.Millisecond}).DialContext}
			defer transport.CloseIdleConnections()
			for {
				// Without GetBody the transport does not hide a connection that was lost.
				r, _ := http.NewRequest("POST", "http://"+l.Addr().String()+chat, io.NopCloser(strings.NewReader(ask)))
				r.ContentLength = int64(len(ask))
				r.Header.Set("Content-Type", jsonType)
				r, connected := traced(r)
				late := ordered.Load()
				response, err := transport.RoundTrip(r)
				if err != nil {
					if connected.Load() {
						t.Errorf("a request was lost: %v", err)
					}
					return // refused
				}
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
				if response.StatusCode != http.StatusOK || late && !response.Close {
					t.Errorf("status %d, and it closes: %v", response.StatusCode, response.Close)
				}
				if late {
					after.Add(1)
				} else {
					before.Add(1)
				}
			}
		})
	}
	for before.Load() < 50 {
		time.Sleep(time.Millisecond)
	}
	stop()
	for g.do("GET", "/readyz", "").Code == http.StatusOK {
		time.Sleep(time.Millisecond)
	}
	ordered.Store(true)
	clients.Wait()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if after.Load() == 0 {
		t.Error("nothing was answered within the grace")
	}
}

// traced notes whether the request got a connection.
func traced(r *http.Request) (*http.Request, *atomic.Bool) {
	var connected atomic.Bool
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})), &connected
}

// wireClient speaks HTTP on one connection.
type wireClient struct {
	net.Conn
	in *bufio.Reader
}

func connect(t *testing.T, l *pipes) *wireClient {
	t.Helper()
	conn, err := l.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &wireClient{conn, bufio.NewReader(conn)}
}

func (c *wireClient) ask(t *testing.T, method, path, body string) {
	t.Helper()
	r, _ := http.NewRequest(method, "http://router"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", jsonType)
	if err := r.Write(c); err != nil {
		t.Fatal(err)
	}
}

// answer is the answer's header; the rest can be read.
func (c *wireClient) answer(t *testing.T) *http.Response {
	t.Helper()
	r, err := http.ReadResponse(c.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// From the order to end on, answers of all kinds say that the connection closes, also those to
// requests that came before; a stream that has begun goes on to its end.
func TestAnswersCloseTheirConnectionsAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const s = time.Second
		stream := scripted(0, eventType, step{s, word("0", "a")}, step{9 * s, word("0", "b")}, step{0, stopped("0")}, step{0, done})
		g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
			body, _ := io.ReadAll(r.Body)
			if strings.Contains(string(body), `"stream":true`) {
				return stream(r)
			}
			return takes(4 * s)(r)
		}), func(o *serving.Options) { o.Config.ReadyGrace = 4 * s })
		l, stop, ended := serve(t, g)
		idle, long, streamed := connect(t, l), connect(t, l), connect(t, l)
		for _, path := range []string{"/healthz", "/none"} {
			idle.ask(t, "GET", path, "")
			if r := idle.answer(t); r.Close {
				t.Errorf("%s closes its connection before the end", path)
			} else {
				_, _ = io.Copy(io.Discard, r.Body)
			}
		}
		long.ask(t, "POST", chat, ask)
		streamed.ask(t, "POST", chat, askStream)
		begun := streamed.answer(t)
		if begun.Close {
			t.Error("a stream closes its connection before the end")
		}
		time.Sleep(s) // a second before the answer, and not at its moment
		stop()
		synctest.Wait()
		for path, c := range map[string]*wireClient{"/healthz": idle, "/readyz": connect(t, l), "/none": connect(t, l), "/v1/models": connect(t, l), "/v1/gearshift/status": connect(t, l)} {
			c.ask(t, "GET", path, "")
			if r := c.answer(t); !r.Close {
				t.Errorf("%s does not close its connection", path)
			} else {
				_, _ = io.Copy(io.Discard, r.Body)
			}
		}
		r := long.answer(t)
		if text, _ := io.ReadAll(r.Body); !r.Close || string(text) != fine {
			t.Errorf("an answer closes: %v, %q", r.Close, text)
		}
		if text, err := io.ReadAll(begun.Body); err != nil || string(text) != word("0", "a")+word("0", "b")+stopped("0")+done {
			t.Errorf("the stream was %q, %v", text, err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A connection that stands brings its last request even when no new one is taken: without a grace
// there is a moment for it.
func TestAKeptConnectionHasAMomentAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, good)
		l, stop, ended := serve(t, g)
		kept, fresh, idle := connect(t, l), connect(t, l), connect(t, l)
		for _, c := range []*wireClient{kept, idle} {
			c.ask(t, "POST", chat, ask)
			_, _ = io.Copy(io.Discard, c.answer(t).Body)
		}
		start := time.Now()
		stop()
		synctest.Wait()
		if _, err := l.dial(t.Context()); err == nil {
			t.Error("still takes connections")
		}
		time.Sleep(100 * time.Millisecond)
		for name, c := range map[string]*wireClient{"kept": kept, "new": fresh} {
			c.ask(t, "POST", chat, ask)
			if r := c.answer(t); r.StatusCode != http.StatusOK || !r.Close {
				t.Errorf("on a %s connection status %d, and it closes: %v", name, r.StatusCode, r.Close)
			} else {
				_, _ = io.Copy(io.Discard, r.Body)
			}
		}
		if err := <-ended; err != nil || time.Since(start) > time.Second {
			t.Errorf("ended after %v with %v", time.Since(start), err)
		}
		if _, err := idle.in.ReadByte(); err == nil {
			t.Error("an idle connection stands after the end")
		}
	})
}

// In HTTP/2 the first answer within the grace has the client make another connection for what
// follows.
func TestConnectionsOfHTTP2EndWithinTheGrace(t *testing.T) {
	config, roots := certificate(t, t.TempDir(), 1)
	g := newRig(t, good, func(o *serving.Options) {
		o.Config.TLS, o.Config.ReadyGrace = config, time.Second
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(ctx, l) }()
	conns := 0
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost"},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			conns++
			return (&net.Dialer{}).DialContext(ctx, network, l.Addr().String())
		}}
	defer transport.CloseIdleConnections()
	ask := func() {
		r, _ := http.NewRequest("POST", "https://localhost"+chat, strings.NewReader(ask))
		r.Header.Set("Content-Type", jsonType)
		response, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if text, err := io.ReadAll(response.Body); err != nil || string(text) != fine || response.ProtoMajor != 2 {
			t.Errorf("%s: %q, %v", response.Proto, text, err)
		}
	}
	ask()
	ask()
	if conns != 1 {
		t.Errorf("%d connections before the end", conns)
	}
	stop()
	for g.do("GET", "/readyz", "").Code == http.StatusOK {
		time.Sleep(time.Millisecond)
	}
	ask()
	time.Sleep(50 * time.Millisecond) // for the word to come
	ask()
	if conns != 2 {
		t.Errorf("%d connections, want another one from the end on", conns)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
