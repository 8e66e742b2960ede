package backend

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnixSockets: an engine on a Unix socket is asked as one at an address is, by both ways to send
// requests, and no proxy is asked.
func TestUnixSockets(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	folder, err := os.MkdirTemp("", "s") // a test's own has a longer name than a socket may
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	path := filepath.Join(folder, "a b.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.Host+" "+r.URL.RequestURI()+" "+string(body))
	}))
	server.Listener = l
	server.Start()
	defer server.Close()
	u, err := NewUpstream(UpstreamConfig{URL: "unix:" + strings.ReplaceAll(path, " ", "%20") + ":/serve"})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	request := func(expect string) (*http.Response, error) {
		r := plainRequest(t.Context(), "{}")
		if expect != "" {
			r.Header = http.Header{"Expect": {expect}}
		}
		return u.RoundTrip(r)
	}
	for name, c := range map[string]struct {
		ask  func() (*http.Response, error)
		want string
	}{
		"a request":            {func() (*http.Response, error) { return request("") }, "localhost /serve/v1/chat/completions {}"},
		"by the other way":     {func() (*http.Response, error) { return request("100-continue") }, "localhost /serve/v1/chat/completions {}"},
		"a path of the server": {func() (*http.Response, error) { return u.Get(t.Context(), "/metrics") }, "localhost /serve/metrics "},
	} {
		for range 2 {
			response, err := c.ask()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			body, err := io.ReadAll(response.Body)
			response.Body.Close()
			if err != nil || string(body) != c.want {
				t.Errorf("%s: the engine got %q, %v; want %q", name, body, err, c.want)
			}
		}
	}
	if _, err := NewUpstream(UpstreamConfig{URL: "unix:" + path, TLS: TLSConfig{ServerName: "gpu0"}}); err == nil || !strings.Contains(err.Error(), "tls has no meaning without https://") {
		t.Errorf("with TLS: %v", err)
	}
}
