package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// A completion passes the bare proxy as it is; what is no JSON does not.
func TestBarePassesOn(t *testing.T) {
	engine := httptest.NewServer(http.HandlerFunc(upstream))
	defer engine.Close()
	to, err := url.Parse(engine.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(bare(to))
	defer proxy.Close()
	for body, want := range map[string]string{`{"messages":[]}`: completion, "hello": "invalid character"} {
		response, err := http.Post(proxy.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if !strings.Contains(string(text), want) {
			t.Errorf("%s: %s, want %s", body, text, want)
		}
	}
}

// Streams are timed by the times that their events say: a server that sends all at the end
// shrinks every gap by what it was, and one that passes events on does not.
func TestStreamsAreTimed(t *testing.T) {
	direct := httptest.NewServer(http.HandlerFunc(upstream))
	defer direct.Close()
	late := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := range streamEvents {
			fmt.Fprintf(w, event, int64(1+i)*int64(5*streamGap))
		}
	}))
	defer late.Close()
	for address, least := range map[string]int64{direct.URL: 0, late.URL: int64(5*streamGap) * 9 / 10} {
		var out bytes.Buffer
		if err := streams(&out, address, "50ms", []string{"x-a: b"}); err != nil {
			t.Fatal(err)
		}
		var first, median, p99 int64
		if _, err := fmt.Sscan(out.String(), &first, &median, &p99); err != nil || first <= 0 || median < least || p99 < median {
			t.Errorf("%s: %v, want a median gap of at least %d", out.String(), err, least)
		}
	}
}

func TestStreamsRefuse(t *testing.T) {
	none := httptest.NewServer(http.NotFoundHandler())
	defer none.Close()
	if err := streams(io.Discard, none.URL, "10ms", nil); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("error %v", err)
	}
}
