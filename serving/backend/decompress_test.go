package backend

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

type flusher interface {
	io.WriteCloser
	Flush() error
}

// compressions of servers that do not heed what they are asked for, by the header's value.
var compressions = map[string]func(io.Writer) flusher{
	"gzip":           func(w io.Writer) flusher { return gzip.NewWriter(w) },
	"x-gzip":         func(w io.Writer) flusher { return gzip.NewWriter(w) },
	"GZip, identity": func(w io.Writer) flusher { return gzip.NewWriter(w) },
	"deflate":        func(w io.Writer) flusher { return zlib.NewWriter(w) },
	" deflate":       func(w io.Writer) flusher { w2, _ := flate.NewWriter(w, 5); return w2 }, // without its frame
}

// An upstream is asked not to compress what it answers, whatever the client takes, and where it
// does all the same that is undone: of requests by either way, of probes and of metrics.
func TestCompressedAnswersAreDecompressed(t *testing.T) {
	text := strings.Repeat("some text ", 10_000)
	for coding, compress := range compressions {
		var asked []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, strings.Join(r.Header["Accept-Encoding"], "|"))
			w.Header().Set("Content-Encoding", coding)
			c := compress(w)
			_, _ = io.WriteString(c, text)
			c.Close()
		}))
		u, err := NewUpstream(UpstreamConfig{URL: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		request := func(expect string) (*http.Response, error) {
			r := plainRequest(t.Context(), "{}")
			r.Header = http.Header{"Accept-Encoding": {"gzip, br"}}
			if expect != "" {
				r.Header.Set("Expect", expect)
			}
			return u.RoundTrip(r)
		}
		for name, ask := range map[string]func() (*http.Response, error){
			"a request":            func() (*http.Response, error) { return request("") },
			"by the other way":     func() (*http.Response, error) { return request("100-continue") },
			"a path of the server": func() (*http.Response, error) { return u.Get(t.Context(), "/metrics") },
		} {
			response, err := ask()
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			response.Body.Close()
			if err != nil || string(body) != text {
				t.Errorf("%s, %s: %d bytes, %v", coding, name, len(body), err)
			}
			if h := response.Header; h.Get("Content-Encoding") != "" || h.Get("Content-Length") != "" || !response.Uncompressed {
				t.Errorf("%s, %s: header %v", coding, name, h)
			}
		}
		if got := strings.Join(asked, " "); got != "identity identity identity" {
			t.Errorf("%s: the server was asked for %s", coding, got)
		}
		u.Close()
		server.Close()
	}
}

// What is compressed is passed on as the server flushes it, and its connection is kept.
func TestCompressedStreamsComeAtOnce(t *testing.T) {
	for coding, compress := range compressions {
		received, conns := make(chan struct{}), map[string]bool{}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conns[r.RemoteAddr] = true
			w.Header().Set("Content-Encoding", coding)
			c := compress(w)
			for range 3 {
				_, _ = io.WriteString(c, "data: {}\n\n")
				_ = c.Flush()
				w.(http.Flusher).Flush()
				<-received
			}
			c.Close()
		}))
		u, err := NewUpstream(UpstreamConfig{URL: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			response, err := u.RoundTrip(plainRequest(t.Context(), "{}"))
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				event := make([]byte, len("data: {}\n\n"))
				if _, err := io.ReadFull(response.Body, event); err != nil {
					t.Fatalf("%s: %v", coding, err)
				}
				received <- struct{}{}
			}
			if rest, err := io.ReadAll(response.Body); len(rest) > 0 || err != nil {
				t.Errorf("%s: %q, %v at the end", coding, rest, err)
			}
			response.Body.Close()
		}
		if len(conns) != 1 {
			t.Errorf("%s: %d connections for two requests", coding, len(conns))
		}
		u.Close()
		server.Close()
	}
}

func TestCompressedAnswersThatBreak(t *testing.T) {
	var whole bytes.Buffer
	c := gzip.NewWriter(&whole)
	_, _ = io.WriteString(c, strings.Repeat("some text ", 100))
	c.Close()
	for name, body := range map[string]string{
		"cut": whole.String()[:whole.Len()-9], "no such text": "{}{}{}{}{}{}{}{}", "too short": "\x1f\x8b", "changed": whole.String()[:whole.Len()-8] + "12345678",
	} {
		r := &http.Response{Header: http.Header{"Content-Encoding": {"gzip"}}, Body: io.NopCloser(strings.NewReader(body))}
		decompress(r)
		if _, err := io.ReadAll(r.Body); err == nil {
			t.Errorf("%s: no error", name)
		}
		r.Body.Close()
	}
}

// What the router cannot undo stays as it is, under its name.
func TestOtherCodingsStay(t *testing.T) {
	for _, coding := range []string{"br", "zstd", "gzip, br", "gzip, gzip", "identity", ""} {
		r := &http.Response{Header: http.Header{"Content-Encoding": {coding}, "Content-Length": {"2"}}, Body: io.NopCloser(strings.NewReader("{}"))}
		decompress(r)
		if text, err := io.ReadAll(r.Body); string(text) != "{}" || err != nil || r.Header.Get("Content-Encoding") != coding || r.Uncompressed {
			t.Errorf("%q: %q, %v, header %v", coding, text, err, r.Header)
		}
	}
}
