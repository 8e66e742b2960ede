package agents

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"

	"gearshift/router/control"
)

// engine is an Engine in memory: a handler whose answers are written at once, and a wait
// for those that take their time.
type engine struct {
	handler http.Handler
	err     error // instead of an answer
	mu      sync.Mutex
	asked   []string // METHOD path?query body
}

// Ask implements [Engine].
func (e *engine) Ask(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	e.mu.Lock()
	e.asked = append(e.asked, method+" "+path+" "+string(body))
	err := e.err
	e.mu.Unlock()
	if err != nil {
		return nil, err
	}
	r := httptest.NewRequestWithContext(ctx, method, path, bytes.NewReader(body))
	maps.Copy(r.Header, header)
	w := httptest.NewRecorder()
	e.handler.ServeHTTP(w, r)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// last is the last question, without those for states.
func (e *engine) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.asked...)
}

func (e *engine) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
}

// says is a handler with one answer.
func says(status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

// events collects what an Actuator observes.
type events struct {
	mu  sync.Mutex
	all []control.Event
}

func (l *events) observe(e control.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e)
}

// take returns what has come, and forgets it.
func (l *events) take() []control.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}
