package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// Keys in the environment often end in a line break, as a Secret made by echo does. Engines
// and operators get them without it.
func TestServeTrimsKeysOfTheEnvironment(t *testing.T) {
	var seen atomic.Value
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			seen.Store(r.URL.Path + " " + r.Header.Get("Authorization"))
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}],"usage":{"completion_tokens":1}}`))
	}))
	defer engine.Close()
	t.Setenv("TEST_ENGINE_KEY", "sk-abc\r\n")
	t.Setenv("TEST_ADMIN_TOKEN", testToken+"\n")
	file := write(t, "mine.yaml", upstreamScenario(t, engine.URL+"/v3", `/v3"}`, `/v3", api_key_env: TEST_ENGINE_KEY}`,
		"\n  upstreams:", "\n  admin: {token_env: TEST_ADMIN_TOKEN}\n  upstreams:"))
	s := steerTiny(t, "--scenario", file, "--policy", "static:small")
	if status, _, text := s.ask(t, "POST", "/v1/chat/completions", `{"model":"auto","messages":[{"role":"user","content":"hi"}]}`); status != http.StatusOK {
		t.Errorf("status %d: %s", status, text)
	}
	if got := seen.Load(); got != "/v3/chat/completions Bearer sk-abc" {
		t.Errorf("the engine got %q", got)
	}
	if status, _, text := s.operators.ask(t, "POST", "/admin/reload", ""); status != http.StatusOK {
		t.Errorf("an operator gets status %d: %s", status, text)
	}
	s.end(t)

	t.Setenv("TEST_ENGINE_KEY", "sk-abc\nsk-def")
	code, _, stderr := gearshift(t, "serve", "--scenario", file, "--addr", "127.0.0.1:0", "--admin-addr", "off", "--policy", "static:small")
	if code == 0 || !strings.Contains(stderr, "TEST_ENGINE_KEY") || strings.Contains(stderr, "sk-") {
		t.Errorf("two keys in one: code %d, %s", code, stderr)
	}
}
