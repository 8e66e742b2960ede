package control_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// switched is an engine in memory that answers while it is on: loaded, or awake.
type switched struct {
	base *url.URL

	mu sync.Mutex // protects on
	on bool
}

// Base implements [engines.Server].
func (e *switched) Base() *url.URL { return e.base }

func (e *switched) is() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.on
}

func (e *switched) set(on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.on = on
}

// answer returns a completion of one token, or while the engine is off this status and body.
func (e *switched) answer(status int, body string) *http.Response {
	if e.is() {
		status, body = http.StatusOK, `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
	}
	return &http.Response{StatusCode: status, ContentLength: -1, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
}
