package serving_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// sound holds what is so of every answer: OpenAI's shape, a plain ID, and
// nothing in flight afterwards.
func (g *rig) sound(t *testing.T, status int, header http.Header, body []byte) {
	t.Helper()
	if id := header.Get("X-Request-Id"); id == "" || len(id) > 128 || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		t.Errorf("request ID %q", id)
	}
	for name, values := range header {
		for _, value := range values {
			if strings.ContainsAny(name+value, "\r\n\x00") {
				t.Errorf("header %q: %q", name, value)
			}
		}
	}
	if status >= http.StatusBadRequest {
		if _, _, _, code := readError(t, body); code == "" {
			t.Errorf("an error without a code: %s", body)
		}
	}
	if n := g.core.Ledger().InFlight(); n != 0 {
		t.Errorf("%d requests in flight", n)
	}
}

// FuzzHeaders holds that no header of a client breaks a request, or gets out as
// it is.
func FuzzHeaders(f *testing.F) {
	f.Add("an-id", "chat", "12.5", "application/json", "identity")
	f.Add("a b\r\nSet-Cookie: x", "none", "-1", "text/plain; charset=\"", "gzip")
	f.Add(strings.Repeat("x", 129), "", "NaN", "application/x+json;;", "")
	f.Add("é\x00", "copy", "1e999", "", "IDENTITY")
	f.Add("", "chat", " 0x1p-2 ", "application/json; a=b", "")
	f.Fuzz(func(t *testing.T, id, task, deadline, kind, coding string) {
		g := newRig(t, says(http.StatusOK, jsonType, fine))
		w := g.do("POST", chat, ask, "X-Request-Id", id, "X-Gearshift-Task", task,
			"X-Llm-D-Slo-Tpot-Ms", deadline, "Content-Type", kind, "Content-Encoding", coding)
		if w.Code != http.StatusOK && w.Code != http.StatusBadRequest && w.Code != http.StatusUnsupportedMediaType {
			t.Errorf("status %d, %s", w.Code, w.Body)
		}
		g.sound(t, w.Code, w.Header(), w.Body.Bytes())
	})
}

// FuzzRouteBody holds the same of the bodies that ask for a decision and end it.
func FuzzRouteBody(f *testing.F) {
	for _, b := range []string{
		`{"task":"copy","prompt_tokens":120,"deadline_ms":40}`, `{}`, ``, `{"deadline_ms":1e999}`, `{"prompt_tokens":-1}`,
		`{"prompt_tokens":9223372036854775807}`, `{"model":"large","task":"none"}`, `{"output_tokens":57}`, `{"output_tokens":-1,"outcome":"x"}`, `[1]`,
	} {
		f.Add(b, b)
	}
	f.Fuzz(func(t *testing.T, body, end string) {
		g := newRig(t, says(http.StatusOK, jsonType, fine))
		w := g.do("POST", "/v1/gearshift/route", body)
		if w.Code == http.StatusOK {
			_, lease, _ := strings.Cut(w.Body.String(), `"lease":"`)
			lease, _, _ = strings.Cut(lease, `"`)
			w = g.do("POST", "/v1/gearshift/route/"+lease+"/end", end)
			if w.Code != http.StatusOK && w.Code != http.StatusBadRequest {
				t.Errorf("end %q: status %d, %s", end, w.Code, w.Body)
			}
			if w.Code != http.StatusOK {
				g.do("POST", "/v1/gearshift/route/"+lease+"/end", "")
			}
		}
		g.sound(t, w.Code, w.Header(), w.Body.Bytes())
	})
}

// FuzzAnswer holds that whatever a replica answers, the request ends once, and
// what passes is what came.
func FuzzAnswer(f *testing.F) {
	f.Add(200, jsonType, []byte(fine), "keep-alive")
	f.Add(200, eventType, []byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n"), "")
	f.Add(200, eventType, []byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONEq\n\n"), "") // cut off
	f.Add(500, jsonType, []byte(`{"error":{"message":"x"}}`), "X-Secret")
	f.Add(302, "text/html", []byte("<html>"), "")
	f.Add(200, "text/event-stream; =", []byte("data: {"), "close, te")
	f.Add(429, "", []byte(nil), "")
	f.Add(204, jsonType, []byte(fine), "")
	f.Fuzz(func(t *testing.T, status int, kind string, body []byte, connection string) {
		if status < 200 || status > 599 {
			return // no transport gives another
		}
		if status == http.StatusNoContent || status == http.StatusNotModified {
			body = nil // nor these with one
		}
		g := newRig(t, transport(func(*http.Request) (*http.Response, error) {
			r := reply(status, kind, io.NopCloser(strings.NewReader(string(body))))
			r.Header.Set("Connection", connection)
			r.Header.Set("X-Gearshift-Variant", "forged")
			return r, nil
		}))
		w, _ := g.visit(ask) // what the replica cuts off breaks here too
		if w.Header().Get("X-Gearshift-Variant") == "forged" || w.Header().Get("Connection") != "" {
			t.Errorf("header %v", w.Header())
		}
		// Of a stream of nothing but comments, those of each of the three replicas have gone out.
		if text, _, _ := strings.Cut(w.Body.String(), "\ndata: {\"error\":{\"message\":\"the replica"); w.Code == http.StatusOK && text != string(body) && text != strings.Repeat(string(body), 3) {
			t.Errorf("passed %q as %q", body, w.Body)
		}
		if n := g.core.Ledger().InFlight(); n != 0 {
			t.Errorf("%d requests in flight", n)
		}
		if ended := g.counted("gearshift_requests_total"); len(ended) != 1 || !strings.HasSuffix(ended[0], " 1") {
			t.Errorf("the request ended as %q", ended)
		}
	})
}
