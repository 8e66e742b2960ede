package address_test

import (
	"net/url"
	"strings"
	"testing"

	"gearshift/serving/address"
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
