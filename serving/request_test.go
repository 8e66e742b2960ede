package serving_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gearshift/serving"
)

func TestFaultsOfRequests(t *testing.T) {
	g := newRig(t, says(http.StatusOK, jsonType, fine), func(o *serving.Options) { o.Config.MaxBody = 200 })
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		param, code, message     string
	}{
		{"malformed", "POST", chat, `{"model":"auto",}`, nil, 400, "", "invalid_json", "line 1, column 17 (byte 16)"},
		{"empty", "POST", chat, ``, nil, 400, "", "invalid_json", "the body is empty"},
		{"cut off", "POST", chat, `{"model"`, nil, 400, "", "invalid_json", "line 1, column 9 (byte 8)"},
		{"no object", "POST", chat, `[]`, nil, 400, "", "invalid_type", "must be a JSON object"},
		{"no model", "POST", chat, `{}`, nil, 400, "model", "missing_model", "there are auto, small, large"},
		{"unknown model", "POST", chat, `{"model":"huge"}`, nil, 404, "model", "model_not_found", `no model "huge"; there are auto, small, large`},
		{"unknown task in header", "POST", chat, ask, []string{"x-gearshift-task", "sing"}, 400, "x-gearshift-task", "unknown_task", `no task "sing"; there are chat, copy`},
		{"negative deadline", "POST", chat, ask, []string{"x-llm-d-slo-tpot-ms", "-40"}, 400, "x-llm-d-slo-tpot-ms", "invalid_deadline", "-40"},
		{"zero deadline", "POST", chat, ask, []string{"x-slo-tpot-ms", "0"}, 400, "x-slo-tpot-ms", "invalid_deadline", "positive"},
		{"deadline not a number", "POST", chat, ask, []string{"x-slo-tpot-ms", "NaN"}, 400, "x-slo-tpot-ms", "invalid_deadline", "NaN"},
		{"deadline without end", "POST", chat, ask, []string{"x-slo-tpot-ms", "+Inf"}, 400, "x-slo-tpot-ms", "invalid_deadline", "Inf"},
		{"deadline beyond time", "POST", chat, ask, []string{"x-slo-tpot-ms", "1e300"}, 400, "x-slo-tpot-ms", "invalid_deadline", "1e300"},
		{"deadline of junk", "POST", chat, ask, []string{"x-slo-tpot-ms", "40ms"}, 400, "x-slo-tpot-ms", "invalid_deadline", "40ms"},
		{"quality not a number", "POST", chat, ask, []string{"x-gearshift-min-quality", "high"}, 400, "x-gearshift-min-quality", "invalid_quality", `"high"; it must be a number of at least 0`},
		{"negative quality", "POST", chat, ask, []string{"x-gearshift-min-quality", "-0.1"}, 400, "x-gearshift-min-quality", "invalid_quality", "-0.1"},
		{"quality without end", "POST", chat, ask, []string{"x-gearshift-min-quality", "Inf"}, 400, "x-gearshift-min-quality", "invalid_quality", "Inf"},
		{"quality that is none", "POST", chat, ask, []string{"x-gearshift-min-quality", "NaN"}, 400, "x-gearshift-min-quality", "invalid_quality", "NaN"},
		{"more quality than there is", "POST", chat, ask, []string{"x-gearshift-min-quality", "1.5"}, 400, "x-gearshift-min-quality", "quality_not_found", `no model has quality 1.5 for task "chat"; the best is "large" with 1`},
		{"more than the model has", "POST", chat, `{"model":"small"}`, []string{"x-gearshift-min-quality", "0.9"}, 400, "x-gearshift-min-quality", "quality_not_found", `"small" has quality 0.5 for task "chat", not 0.9; the best is "large" with 1`},
		{"oversize", "POST", chat, `{"model":"auto","x":"` + strings.Repeat("y", 200) + `"}`, nil, 413, "", "body_too_large", "200 bytes"},
		{"form", "POST", chat, ask, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "", "unsupported_media_type", "x-www-form-urlencoded"},
		{"compressed", "POST", chat, ask, []string{"Content-Encoding", "gzip"}, 415, "", "unsupported_encoding", "gzip"},
		{"unknown path", "POST", "/v1/audio/speech", ask, nil, 404, "", "unknown_url", "no POST /v1/audio/speech"},
		{"wrong method", "GET", chat, "", nil, 405, "", "method_not_allowed", "does not take GET; want POST"},
		{"unknown model asked for", "GET", "/v1/models/huge", "", nil, 404, "model", "model_not_found", "huge"},
		{"completions too", "POST", "/v1/completions", `{"model":"huge"}`, nil, 404, "model", "model_not_found", "huge"},
		{"route: too many tokens", "POST", "/v1/gearshift/route", `{"prompt_tokens":3000000000}`, nil, 400, "prompt_tokens", "invalid_value", "nor above 16777216"},
		{"route: unknown task", "POST", "/v1/gearshift/route", `{"task":"sing"}`, nil, 400, "task", "unknown_task", "sing"},
		{"route: unknown member", "POST", "/v1/gearshift/route", `{"tusk":"chat"}`, nil, 400, "tusk", "unknown_member", `no "tusk" here; there are task, prompt_tokens, deadline_ms, first_token_ms, total_ms, max_tokens`},
		{"route: more quality than there is", "POST", "/v1/gearshift/route", `{"task":"copy"}`, []string{"x-gearshift-min-quality", "2"}, 400, "x-gearshift-min-quality", "quality_not_found", `"copy"`},
		{"route: malformed", "POST", "/v1/gearshift/route", `{"task":chat}`, nil, 400, "", "invalid_json", "line 1, column 9 (byte 8)"},
		{"route: no object", "POST", "/v1/gearshift/route", `"chat"`, nil, 400, "", "invalid_type", "must be a JSON object"},
		{"route: wrong type", "POST", "/v1/gearshift/route", `{"task":7}`, nil, 400, "task", "invalid_type", `"task" must be a string`},
		{"route: half a token", "POST", "/v1/gearshift/route", `{"prompt_tokens":1.5}`, nil, 400, "prompt_tokens", "invalid_type", `"prompt_tokens" must be a whole number`},
		{"route: deadline of junk", "POST", "/v1/gearshift/route", `{"deadline_ms":"x"}`, nil, 400, "deadline_ms", "invalid_type", `"deadline_ms" must be a number`},
		{"route: end of wrong type", "POST", "/v1/gearshift/route/x/end", `{"output_tokens":true}`, nil, 400, "output_tokens", "invalid_type", "whole number"},
		{"route: two values", "POST", "/v1/gearshift/route", `{} {}`, nil, 400, "", "invalid_json", "more than one"},
		{"route: negative prompt", "POST", "/v1/gearshift/route", `{"prompt_tokens":-1}`, nil, 400, "prompt_tokens", "invalid_value", "negative"},
		{"route: negative deadline", "POST", "/v1/gearshift/route", `{"deadline_ms":-1}`, nil, 400, "deadline_ms", "invalid_deadline", "positive"},
		{"route: no such lease", "POST", "/v1/gearshift/route/x/end", `{}`, nil, 404, "lease", "lease_not_found", "no such lease"},
		{"route: negative output", "POST", "/v1/gearshift/route/x/end", `{"output_tokens":-1}`, nil, 400, "output_tokens", "invalid_value", "negative"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := g.do(c.method, c.path, c.body, c.header...)
			message, _, param, code := readError(t, w.Body.Bytes())
			if w.Code != c.status || param != c.param || code != c.code || !strings.Contains(message, c.message) {
				t.Errorf("got  %d, param %q, code %q, %q\nwant %d, param %q, code %q, %q", w.Code, param, code, message, c.status, c.param, c.code, c.message)
			}
			if w.Header().Get("X-Request-Id") == "" || w.Header().Get("Content-Type") != jsonType {
				t.Errorf("header %v", w.Header())
			}
		})
	}
	if n := g.core.Ledger().InFlight(); n != 0 || g.Status().Total.Requests != 0 {
		t.Errorf("%d in flight, %d requests counted", n, g.Status().Total.Requests)
	}
}

func TestOversizeBodyOfUnknownLength(t *testing.T) {
	g := newRig(t, says(http.StatusOK, jsonType, fine), func(o *serving.Options) { o.Config.MaxBody = 64 })
	r, _ := http.NewRequest("POST", chat, io.MultiReader(strings.NewReader(`{"model":"`), strings.NewReader(strings.Repeat("y", 100))))
	r.ContentLength = -1
	w := httptest.NewRecorder()
	g.Handler().ServeHTTP(w, r)
	if _, _, _, code := readError(t, w.Body.Bytes()); w.Code != http.StatusRequestEntityTooLarge || code != "body_too_large" {
		t.Errorf("status %d, code %q", w.Code, code)
	}
}

func TestWhatARequestAsksFor(t *testing.T) {
	for _, c := range []struct {
		name, body    string
		header        []string
		task, variant string
		policy        string
		met           uint64
	}{
		{"auto", ask, nil, "chat", "small", "wants@3", 1},
		{"pinned", `{"model":"large"}`, nil, "chat", "large", "pinned", 1},
		{"task in header", ask, []string{"x-gearshift-task", "copy"}, "copy", "small", "wants@3", 1},
		{"task in metadata", `{"model":"auto","metadata":{"task":"copy"}}`, nil, "copy", "small", "wants@3", 1},
		{"another's task in metadata", `{"model":"auto","metadata":{"task":"invoices"}}`, nil, "chat", "small", "wants@3", 1},
		{"a task in metadata that is no text", `{"model":"auto","metadata":{"task":{"id":7}}}`, nil, "chat", "small", "wants@3", 1},
		{"header before metadata", `{"model":"auto","metadata":{"task":"copy"}}`, []string{"x-gearshift-task", "chat"}, "chat", "small", "wants@3", 1},
		{"deadline", ask, []string{"x-llm-d-slo-tpot-ms", "9.5"}, "chat", "small", "wants@3", 0},
		{"deadline by its older name", ask, []string{"x-slo-tpot-ms", "9"}, "chat", "small", "wants@3", 0},
		{"newer name first", ask, []string{"x-slo-tpot-ms", "9", "x-llm-d-slo-tpot-ms", "11"}, "chat", "small", "wants@3", 1},
		{"no content type", ask, []string{"Content-Type", ""}, "chat", "small", "wants@3", 1},
		{"JSON by another name", ask, []string{"Content-Type", "application/problem+json; charset=utf-8"}, "chat", "small", "wants@3", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &hand{}
			// Four tokens in 40 ms.
			backend := transport(func(r *http.Request) (*http.Response, error) {
				h.add(40_000_000)
				return says(http.StatusOK, jsonType, fine)(r)
			})
			g := newRig(t, backend, func(o *serving.Options) { o.Clock = h.clock })
			w := g.do("POST", chat, c.body, c.header...)
			if w.Code != http.StatusOK || w.Body.String() != fine {
				t.Fatalf("status %d, %s", w.Code, w.Body)
			}
			if got := w.Header(); got.Get("X-Gearshift-Variant") != c.variant || got.Get("X-Gearshift-Policy") != c.policy {
				t.Errorf("header %v", got)
			}
			for _, counts := range append(g.Status().Tasks, g.Status().Variants...) {
				mine := counts.Name == c.task || counts.Name == c.variant
				if mine && (counts.Requests != 1 || counts.DeadlineMet != c.met || counts.DeadlineMissed != 1-c.met) || !mine && counts.Requests != 0 {
					t.Errorf("counts %+v", counts)
				}
			}
		})
	}
}

func TestDefaultTask(t *testing.T) {
	g := newRig(t, says(http.StatusOK, jsonType, fine), func(o *serving.Options) { o.Config.DefaultTask = "copy" })
	g.do("POST", chat, ask)
	if c := g.Status().Tasks[1]; c.Name != "copy" || c.Requests != 1 {
		t.Errorf("counts %+v", c)
	}
}
