package address_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gearshift/serving/engines/address"
)

// Where a chat and the metrics of a server go, by the URL that is written for it.
func TestPaths(t *testing.T) {
	for _, c := range []struct{ written, chat, metrics string }{
		{"", "/v1/chat/completions", "/metrics"},
		{"/", "/v1/chat/completions", "/metrics"},
		{"/v1", "/v1/chat/completions", "/metrics"},
		{"/v1/", "/v1/chat/completions", "/metrics"},
		{"/v1//", "/v1/chat/completions", "/metrics"},
		{"/v2", "/v2/chat/completions", "/metrics"},
		{"/v3", "/v3/chat/completions", "/metrics"},
		{"/v3/", "/v3/chat/completions", "/metrics"},
		{"/v10", "/v10/chat/completions", "/metrics"},
		{"/v1.1", "/v1.1/chat/completions", "/metrics"},
		{"/v1beta", "/v1beta/chat/completions", "/metrics"},
		{"/v1alpha2", "/v1alpha2/chat/completions", "/metrics"},
		{"/api/v3", "/api/v3/chat/completions", "/api/metrics"},
		{"/api/v4/", "/api/v4/chat/completions", "/api/metrics"},
		{"/api/paas/v4", "/api/paas/v4/chat/completions", "/api/paas/metrics"},
		{"/openai/v1", "/openai/v1/chat/completions", "/openai/metrics"},
		{"/v1beta/openai", "/v1beta/openai/chat/completions", "/metrics"},
		{"/v1beta/openai/", "/v1beta/openai/chat/completions", "/metrics"},
		{"/v1/openai", "/v1/openai/chat/completions", "/metrics"},
		// No version at the end: a prefix, of which the rest is as everywhere.
		{"/llm", "/llm/v1/chat/completions", "/llm/metrics"},
		{"/openai", "/openai/v1/chat/completions", "/openai/metrics"},
		{"/v1/tenants/a", "/v1/tenants/a/v1/chat/completions", "/v1/tenants/a/metrics"},
		{"/vllm", "/vllm/v1/chat/completions", "/vllm/metrics"},
		{"/v", "/v/v1/chat/completions", "/v/metrics"},
		{"/models", "/models/v1/chat/completions", "/models/metrics"},
		// The path of an endpoint, taken at its word.
		{"/v1/chat/completions", "/v1/chat/completions", "/metrics"},
		{"/v1/chat/completions/", "/v1/chat/completions", "/metrics"},
		{"/v3/chat/completions", "/v3/chat/completions", "/metrics"},
		{"/v1/completions", "/v1/chat/completions", "/metrics"},
		{"/v1/embeddings", "/v1/chat/completions", "/metrics"},
		{"/v1/models", "/v1/chat/completions", "/metrics"},
		{"/v1beta/openai/chat/completions", "/v1beta/openai/chat/completions", "/metrics"},
		{"/chat/completions", "/chat/completions", "/metrics"},
		{"/inference/chat/completions", "/inference/chat/completions", "/inference/metrics"},
		// A query goes with all of them, and escapes stay.
		{"/v3?api-version=1", "/v3/chat/completions?api-version=1", "/metrics?api-version=1"},
		{"/a%2Fb/v3", "/a%2Fb/v3/chat/completions", "/a%2Fb/metrics"},
		{" /v3", "", ""},
	} {
		s, err := address.Parse("http://engine:8000" + c.written)
		if c.chat == "" {
			if err == nil {
				t.Errorf("%q is taken, as %v", c.written, s.API.String())
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.written, err)
			continue
		}
		for asked, want := range map[string]string{"/v1/chat/completions": c.chat, "/metrics": c.metrics} {
			to := s.To(&url.URL{Path: asked})
			if got := to.String(); got != "http://engine:8000"+want {
				t.Errorf("%q: %s goes to %s, want %s", c.written, asked, got, want)
			}
		}
	}
}

// What clients ask for keeps its own escapes and query.
func TestWhatIsAskedForStays(t *testing.T) {
	s, err := address.Parse("http://engine/v3?a=b")
	if err != nil {
		t.Fatal(err)
	}
	for asked, want := range map[string]string{
		"/v1/responses/a%2Fb?c=d": "http://engine/v3/responses/a%2Fb?a=b&c=d",
		"/v1/models":              "http://engine/v3/models?a=b",
		"/tokenize":               "http://engine/tokenize?a=b",
		"/v1x":                    "http://engine/v1x?a=b",
	} {
		u, err := url.Parse(asked)
		if err != nil {
			t.Fatal(err)
		}
		to := s.To(u)
		if got := to.String(); got != want {
			t.Errorf("%s goes to %s, want %s", asked, got, want)
		}
	}
}

// White space around a URL, as a file or a block of YAML leaves it, is no part of it.
func TestSpaceAroundAURL(t *testing.T) {
	s, err := address.Parse("\ufeff http://engine/v3\r\n")
	if err != nil || s.API.String() != "http://engine/v3/" {
		t.Errorf("%v, %v", s.API.String(), err)
	}
}

func TestFaults(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "is not a URL",
		"localhost:8000":      "is not a URL",
		"ftp://x":             "is not a URL",
		"http://%zz":          "is not a URL",
		"http://x:0":          "no valid port",
		"http://x:70000":      "no valid port",
		"http://me:secret@x":  `"http://me:xxxxx@x" has a user`,
		"http://x/v1 \n/more": "is not a URL",
	} {
		if s, err := address.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %q", text, s.API.String(), err, want)
		}
	}
}

func TestToAllocatesLittle(t *testing.T) {
	s, err := address.Parse("http://engine/v3")
	if err != nil {
		t.Fatal(err)
	}
	asked := &url.URL{Path: "/v1/chat/completions"}
	if n := testing.AllocsPerRun(100, func() { _ = s.To(asked) }); n > 1 { // the path
		t.Errorf("%v allocations", n)
	}
}

// TestSockets: the URL of a Unix socket is read in the forms in which clients have it.
func TestSockets(t *testing.T) {
	for text, want := range map[string][3]string{ // the socket, where the API lies, and the root
		"unix:/run/vllm.sock":                    {"/run/vllm.sock", "/v1/", "/"},
		"unix:///run/vllm.sock":                  {"/run/vllm.sock", "/v1/", "/"},
		" UNIX:///run/a%20b.sock ":               {"/run/a b.sock", "/v1/", "/"},
		"unix:/run/vllm.sock:/v3":                {"/run/vllm.sock", "/v3/", "/"},
		"unix:/run/vllm.sock:/serve":             {"/run/vllm.sock", "/serve/v1/", "/serve/"},
		"http+unix://%2Frun%2Fvllm.sock":         {"/run/vllm.sock", "/v1/", "/"},
		"http+unix://%2frun%2fvllm.sock/v1/":     {"/run/vllm.sock", "/v1/", "/"},
		"unix:%2Frun%2Fvllm.sock/v1/completions": {"/run/vllm.sock", "/v1/", "/"},
	} {
		s, err := address.Parse(text)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := [3]string{address.Socket(s.Root.Host), s.API.Path, s.Root.Path}; got != want || address.Host(&s.API) != "localhost" || s.API.Scheme != "http" {
			t.Errorf("%s: %q, host %s; want %q", text, got, address.Host(&s.API), want)
		}
		again, err := url.Parse(s.API.String()) // as a program that keeps text has it
		if err != nil || address.Socket(again.Host) != want[0] {
			t.Errorf("%s as text: %v, %v", text, again, err)
		}
	}
	for text, want := range map[string]string{
		"unix:run/vllm.sock": `"unix:run/vllm.sock" is not the URL of a socket; want unix: and its absolute path, such as unix:/run/vllm.sock`,
		"unix:":              `"unix:" is not the URL of a socket`,
		"unix://":            `"unix://" is not the URL of a socket`,
		"unix:/":             `"unix:/" is not the URL of a socket`,
		"unix:/run/":         `"unix:/run/" is not the URL of a socket`,
		"unix://host/a.sock": `"unix://host/a.sock" is not the URL of a socket`,
		"unix:/a%zz.sock":    `"unix:/a%zz.sock" is not the URL of a socket`,
		"unix:/a%00.sock":    `"unix:/a%00.sock" is not the URL of a socket`,
		"unix:/a.sock:/%zz":  `"unix:/a.sock:/%zz" is not a URL`,
		"unix:/" + long:      `"unix:/` + long + `" has a path of 201 bytes; want at most 103`,
	} {
		if _, err := address.Parse(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
	if got := address.Readable("GET http://2f612e736f636b.unix-socket/v1/models of http://gpu0:8000"); got != "GET unix:/a.sock/v1/models of http://gpu0:8000" {
		t.Error(got)
	}
}

var long = strings.Repeat("x", 200)

// TestDialer connects to sockets, by any network that it is asked for, and passes the rest on.
func TestDialer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.sock")
	s, err := address.Parse("unix:" + path)
	if err != nil {
		t.Skip(err) // the folder has a long name
	}
	dial := address.Dialer(new(net.Dialer).DialContext)
	_, err = dial(t.Context(), "tcp", s.Root.Host+":80")
	var op *net.OpError
	if !errors.Is(err, syscall.ECONNREFUSED) || !errors.As(err, &op) || op.Op != "dial" || !strings.Contains(err.Error(), path+": there is no such socket") {
		t.Errorf("without a socket: %v", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, at := range []string{s.Root.Host + ":80", s.Root.Host} {
		conn, err := dial(t.Context(), "tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	passed := address.Dialer(func(_ context.Context, network, at string) (net.Conn, error) {
		return nil, errors.New(network + " " + at)
	})
	for _, at := range []string{"gpu0:80", "[::1]:80", "xyz.unix-socket:80"} {
		if _, err := passed(t.Context(), "tcp", at); err == nil || err.Error() != "tcp "+at {
			t.Errorf("%s: %v", at, err)
		}
	}
}
