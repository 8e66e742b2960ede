package backend

import (
	"bufio"
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
)

// capture answers with {} and keeps what came.
func capture(t *testing.T, seen **http.Request) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*seen = r
		w.Header().Set("Keep-Alive", "timeout=5")
		w.Header().Set("X-Kept", "yes")
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(server.Close)
	return server
}

// through sends a client's request with the header to the upstream.
func through(t *testing.T, c UpstreamConfig, header http.Header) *http.Response {
	t.Helper()
	u, err := NewUpstream(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://replica"+ChatPath+"?a=b", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	before := header.Clone()
	response, err := u.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	if len(before) != len(r.Header) {
		t.Errorf("the client's header has changed: %v, was %v", r.Header, before)
	}
	return response
}

func TestUpstreamPaths(t *testing.T) {
	for _, suffix := range []string{"", "/", "/v1", "/v1/", "/openai/v1"} {
		var seen *http.Request
		through(t, UpstreamConfig{URL: capture(t, &seen).URL + suffix}, http.Header{})
		want := strings.TrimSuffix(strings.TrimSuffix(suffix, "/"), "/v1") + ChatPath + "?a=b"
		if got := seen.URL.String(); got != want {
			t.Errorf("suffix %q leads to %s, want %s", suffix, got, want)
		}
	}
}

func TestUpstreamKeepsCredentialsApart(t *testing.T) {
	t.Setenv("TEST_UPSTREAM_KEY", "ours")
	for _, c := range []struct {
		name   string
		config UpstreamConfig
		auth   string
		cookie string
	}{
		{"none of its own", UpstreamConfig{}, "", ""},
		{"its own", UpstreamConfig{Key: "TEST_UPSTREAM_KEY"}, "Bearer ours", ""},
		{"the client's", UpstreamConfig{ForwardAuthorization: true}, "Bearer theirs", "c=1"},
		{"its own first", UpstreamConfig{ForwardAuthorization: true, Key: "TEST_UPSTREAM_KEY"}, "Bearer ours", "c=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var seen *http.Request
			c.config.URL = capture(t, &seen).URL
			through(t, c.config, http.Header{"Authorization": {"Bearer theirs"}, "Cookie": {"c=1"}, "X-Api-Key": {"theirs"}})
			if got := seen.Header.Get("Authorization"); got != c.auth {
				t.Errorf("authorization %q, want %q", got, c.auth)
			}
			if got := seen.Header.Get("Cookie"); got != c.cookie {
				t.Errorf("cookie %q, want %q", got, c.cookie)
			}
		})
	}
}

func TestUpstreamHeaders(t *testing.T) {
	var seen *http.Request
	response := through(t, UpstreamConfig{URL: capture(t, &seen).URL}, http.Header{
		"Connection": {"X-Private, close"}, "X-Private": {"1"}, "Te": {"trailers"}, "Upgrade": {"h2c"},
		"Accept-Encoding": {"gzip"}, "Traceparent": {"00-1"}, "X-Request-Id": {"7"},
	})
	for _, name := range []string{"Connection", "X-Private", "Te", "Upgrade", "Accept-Encoding"} {
		if got := seen.Header.Get(name); got != "" {
			t.Errorf("%s: %q went upstream", name, got)
		}
	}
	if seen.Header.Get("Traceparent") != "00-1" || seen.Header.Get("X-Request-Id") != "7" {
		t.Errorf("upstream got %v", seen.Header)
	}
	if response.Header.Get("Keep-Alive") != "" || response.Header.Get("X-Kept") != "yes" {
		t.Errorf("client got %v", response.Header)
	}
}

func TestNewUpstreamFaults(t *testing.T) {
	for _, c := range []struct {
		config UpstreamConfig
		want   string
	}{
		{UpstreamConfig{}, "needs http:// or https:// and a host"},
		{UpstreamConfig{URL: "localhost:8000"}, "needs http:// or https:// and a host"},
		{UpstreamConfig{URL: "http://%zz"}, "cannot use upstream"},
		{UpstreamConfig{URL: "http://x", Key: "TEST_NO_SUCH_KEY"}, "environment variable TEST_NO_SUCH_KEY, which is empty"},
	} {
		if _, err := NewUpstream(c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.config, err, c.want)
		}
	}
}

func TestUpstreamThatIsNotThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	u, err := NewUpstream(UpstreamConfig{URL: "http://" + l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = post(t.Context(), u, ChatPath, "{}")
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "dial" {
		t.Errorf("error %v does not say that no connection was made", err)
	}
}

// piped is an Upstream whose connections are in memory, so that synctest's
// clock runs its timeouts. The server sends what serve writes.
func piped(t *testing.T, c UpstreamConfig, serve func(conn net.Conn)) *Upstream {
	t.Helper()
	c.URL = "http://upstream"
	u, err := NewUpstream(c)
	if err != nil {
		t.Fatal(err)
	}
	u.transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			// An answer ahead of its question would confuse the client.
			in := bufio.NewReader(server)
			if r, err := http.ReadRequest(in); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
			}
			go io.Copy(io.Discard, in)
			serve(server)
		}()
		return client, nil
	}
	return u
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

func timedOut(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

func TestUpstreamThatFallsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := piped(t, UpstreamConfig{IdleTimeout: 20 * time.Second}, func(conn net.Conn) {
			_, _ = io.WriteString(conn, streamHead)
			for range 3 { // slow, but not too slow
				time.Sleep(15 * time.Second)
				_, _ = io.WriteString(conn, "data: {}\n\n")
			}
		})
		defer u.Close()
		start := time.Now()
		response, err := post(t.Context(), u, ChatPath, "{}")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if strings.Count(string(text), "data:") != 3 || !errors.Is(err, ErrIdle) || !timedOut(err) {
			t.Errorf("got %q, then %v", text, err)
		}
		if took := time.Since(start); took != 65*time.Second {
			t.Errorf("gave up after %v", took)
		}
	})
}

func TestUpstreamOutlivesASlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := piped(t, UpstreamConfig{IdleTimeout: 20 * time.Second}, func(conn net.Conn) {
			_, _ = io.WriteString(conn, streamHead+"data: {}\n\n")
			_, _ = io.WriteString(conn, "data: [DONE]\n\n")
			conn.Close()
		})
		defer u.Close()
		response, err := post(t.Context(), u, ChatPath, "{}")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if _, err := io.ReadFull(response.Body, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if text, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(text), "[DONE]") {
			t.Errorf("after a pause: %q, %v", text, err)
		}
	})
}

func TestUpstreamThatNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := piped(t, UpstreamConfig{HeaderTimeout: 7 * time.Second}, func(net.Conn) {})
		defer u.Close()
		start := time.Now()
		_, err := post(t.Context(), u, ChatPath, "{}")
		if took := time.Since(start); !timedOut(err) || took != 7*time.Second {
			t.Errorf("error %v after %v", err, took)
		}
	})
}
