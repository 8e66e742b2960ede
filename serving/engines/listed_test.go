package engines_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router/health"
	"gearshift/serving/engines"
)

// lists is a server that is well, and lists models.
type lists func(path string) (status int, body string)

func (l lists) Get(_ context.Context, path string) (*http.Response, error) {
	status, body := l(path)
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// A Prober reports what servers say of their models, and nothing where they cannot say.
func TestLists(t *testing.T) {
	always := func(status int, body string) lists { return func(string) (int, string) { return status, body } }
	for name, c := range map[string]struct {
		answer  lists
		note    string
		context int
		silent  bool
	}{
		"has it":       {always(200, `{"data":[{"id":"small","max_model_len":4096}]}`), "", 4096, false},
		"has others":   {always(200, `{"data":[{"id":"a"},{"id":"b"}]}`), "server has a, b, not small", 0, false},
		"empty":        {always(200, `{"data":[]}`), "", 0, false},
		"no list":      {always(404, ""), "", 0, false},
		"no method":    {always(405, ""), "", 0, false},
		"asks a key":   {always(401, `{"error":"who?"}`), "", 0, false},
		"fails":        {always(503, ""), "", 0, true},
		"asks to wait": {always(429, ""), "", 0, true},
		"llama.cpp": {func(path string) (int, string) {
			if path == "/props" {
				return 200, `{"default_generation_settings":{"n_ctx":2048}}`
			}
			return 200, `{"data":[{"id":"/m.gguf","owned_by":"llamacpp","meta":{"n_ctx_train":131072}}]}`
		}, "", 2048, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				target := engines.Target{Server: c.answer, Replicas: []int{0}, Models: []string{"small"}}
				p := engines.NewProber(health.DefaultConfig(), []engines.Target{target}, 1, func(engines.Target, health.Finding) {})
				reports := 0
				p.OnList = func(_ engines.Target, notes []string, contexts []int) {
					if reports++; notes[0] != c.note || contexts[0] != c.context {
						t.Errorf("reports %q, %v", notes, contexts)
					}
				}
				p.Start(ctx)
				time.Sleep(time.Second)
				synctest.Wait()
				stop()
				p.Wait()
				if (reports == 0) != c.silent {
					t.Errorf("reports %d times", reports)
				}
			})
		})
	}
}
