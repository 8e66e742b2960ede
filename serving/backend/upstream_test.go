package backend

import (
	"bufio"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// capture answers with {} and keeps what came.
func capture(t *testing.T, seen **http.Request) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*seen = r
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
	// A base that ends in another version is taken as it stands, on either way to the server.
	for _, suffix := range []string{"/v3", "/v3/", "/v3/chat/completions"} {
		var seen *http.Request
		config := UpstreamConfig{URL: capture(t, &seen).URL + suffix}
		through(t, config, http.Header{})
		if got := seen.URL.String(); got != "/v3/chat/completions?a=b" {
			t.Errorf("suffix %q leads to %s", suffix, got)
		}
		through(t, config, http.Header{"Expect": {"100-continue"}})
		if got := seen.URL.String(); got != "/v3/chat/completions?a=b" {
			t.Errorf("suffix %q leads by the other way to %s", suffix, got)
		}
		u, err := NewUpstream(config)
		if err != nil {
			t.Fatal(err)
		}
		for asked, want := range map[string]string{"/metrics": "/metrics", "/v1/models": "/v3/models"} {
			response, err := u.Get(t.Context(), asked)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if got := seen.URL.String(); got != want {
				t.Errorf("suffix %q: %s is asked for at %s, want %s", suffix, asked, got, want)
			}
		}
	}
}

// An upstream's own query goes with requests, as it does with probes.
func TestUpstreamQuery(t *testing.T) {
	var seen *http.Request
	c := UpstreamConfig{URL: capture(t, &seen).URL + "/v1?model=org%2Fsmall"}
	through(t, c, http.Header{})
	if got, want := seen.URL.String(), ChatPath+"?model=org%2Fsmall&a=b"; got != want {
		t.Errorf("a request goes to %s, want %s", got, want)
	}
	u, err := NewUpstream(c)
	if err != nil {
		t.Fatal(err)
	}
	response, err := u.Get(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if got, want := seen.URL.String(), "/metrics?model=org%2Fsmall"; got != want {
		t.Errorf("gauges are asked for at %s, want %s", got, want)
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
			if u, err := NewUpstream(c.config); err != nil || u.ForwardsAuthorization() != c.config.ForwardAuthorization {
				t.Errorf("it says otherwise, or %v", err)
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
		"Accept-Encoding": {"gzip"}, "Traceparent": {"00-1"}, "X-Request-Id": {"7"},
	})
	if got := seen.Header["Accept-Encoding"]; len(got) != 1 || got[0] != "identity" {
		t.Errorf("the upstream was asked for %q", got)
	}
	if seen.Header.Get("Traceparent") != "00-1" || seen.Header.Get("X-Request-Id") != "7" {
		t.Errorf("upstream got %v", seen.Header)
	}
	if response.Header.Get("X-Kept") != "yes" {
		t.Errorf("client got %v", response.Header)
	}
}

func TestNewUpstreamFaults(t *testing.T) {
	for _, c := range []struct {
		config UpstreamConfig
		want   string
	}{
		{UpstreamConfig{}, "is not a URL; want http:// or https://, a host"},
		{UpstreamConfig{URL: "localhost:8000"}, "is not a URL; want http:// or https://, a host"},
		{UpstreamConfig{URL: "http://%zz"}, "cannot use upstream"},
		{UpstreamConfig{URL: "http://me:secret@x"}, `cannot use upstream: "http://me:xxxxx@x" has a user name, which would not be sent`},
		{UpstreamConfig{URL: "http://x", Key: "TEST_NO_SUCH_KEY"}, "environment variable TEST_NO_SUCH_KEY is empty; it must hold its key"},
	} {
		if _, err := NewUpstream(c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.config, err, c.want)
		}
	}
}

// A file or a Secret may end the key in a line break, which is no part of it.
func TestUpstreamKeysAreTrimmed(t *testing.T) {
	for _, value := range []string{"sk-abc\n", "sk-abc\r\n", " sk-abc ", "\ufeffsk-abc\n"} {
		t.Setenv("TEST_UPSTREAM_KEY", value)
		for _, expect := range []string{"", "100-continue"} { // on either way to the server
			header := http.Header{}
			if expect != "" {
				header.Set("Expect", expect)
			}
			var seen *http.Request
			through(t, UpstreamConfig{URL: capture(t, &seen).URL, Key: "TEST_UPSTREAM_KEY"}, header)
			if got := seen.Header.Get("Authorization"); got != "Bearer sk-abc" {
				t.Errorf("%q: authorization %q", value, got)
			}
		}
	}
	for value, want := range map[string]string{
		"sk-abc\nsk-def": "TEST_UPSTREAM_KEY holds a line break", "sk-\x01": "TEST_UPSTREAM_KEY holds a control character", " \n": "TEST_UPSTREAM_KEY is empty",
	} {
		t.Setenv("TEST_UPSTREAM_KEY", value)
		if _, err := NewUpstream(UpstreamConfig{URL: "http://x", Key: "TEST_UPSTREAM_KEY"}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sk-") {
			t.Errorf("%q: error %v, want %q", value, err, want)
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
	if !dialFailed(err) {
		t.Errorf("error %v does not say that no connection was made", err)
	}
}

// dialFailed says that the error is of a connection that was not made.
func dialFailed(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

func TestConnectingIncludesTLS(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // it takes connections and says nothing
	u, err := NewUpstream(UpstreamConfig{URL: "https://" + l.Addr().String(), ConnectTimeout: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	_, err = post(t.Context(), u, ChatPath, "{}")
	var timeout interface{ Timeout() bool }
	if !dialFailed(err) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("error %v does not say that connecting took too long", err)
	}
}

func TestACertificateThatNobodyKnowsIsNoConnection(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	u, err := NewUpstream(UpstreamConfig{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if _, err := post(t.Context(), u, ChatPath, "{}"); !dialFailed(err) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("error %v", err)
	}
}

// TestAnIdleConnectionThatTheServerCloses is what servers with a short keep-alive
// do to every router now and then: the request goes out on another connection.
func TestAnIdleConnectionThatTheServerCloses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var bodies []string
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			in := bufio.NewReader(conn)
			for range 2 {
				r, err := http.ReadRequest(in)
				if err != nil {
					break
				}
				body, _ := io.ReadAll(r.Body)
				bodies = append(bodies, string(body)+r.Header.Get("X-Idempotency-Key"))
				if len(bodies) == 2 { // the second on the first connection
					break
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
			}
			conn.Close()
		}
	}()
	u, err := NewUpstream(UpstreamConfig{URL: "http://" + l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"{1}", "{2}"} {
		if status, text := answer(t, u, ChatPath, body); status != http.StatusOK || text != "{}" {
			t.Errorf("%s: status %d, %s", body, status, text)
		}
	}
	u.Close()
	l.Close()
	<-ended
	if got := strings.Join(bodies, " "); got != "{1} {2} {2}" {
		t.Errorf("the server got %q", got)
	}
}
