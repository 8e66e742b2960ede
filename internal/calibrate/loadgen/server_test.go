package loadgen

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// answers is a server that answers in one way, and says what it was asked.
func answers(t *testing.T, status int, header, body string) (s Server, asked *http.Request) {
	t.Helper()
	asked = new(http.Request)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		*asked = *r
		asked.Body = io.NopCloser(strings.NewReader(string(text)))
		if header != "" {
			w.Header().Set(header, "1")
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	return Server{URL: server.URL, Key: "secret", Purpose: "measure"}, asked
}

func TestModel(t *testing.T) {
	const one, two = `{"data":[{"id":"a"}]}`, `{"data":[{"id":"a"},{"id":"b"}]}`
	for _, c := range []struct {
		status       int
		body, wanted string
		model, fault string
	}{
		{200, one, "", "a", ""},
		{200, two, "b", "b", ""},
		{200, two, "", "", "it has several models; name one of a, b"},
		{200, two, "c", "", `it has no model "c"; it has a, b`},
		{200, `{"data":[]}`, "a", "", "GET /v1/models answered 200 OK without a list of models; it needs an OpenAI-compatible server"},
		{200, `<html>`, "a", "", "GET /v1/models answered 200 OK without a list of models; it needs an OpenAI-compatible server"},
		{404, one, "a", "", "GET /v1/models answered 404 Not Found without a list of models; it needs an OpenAI-compatible server"},
		{401, one, "a", "", ErrKey.Error()},
	} {
		s, asked := answers(t, c.status, "", c.body)
		model, err := s.Model(t.Context(), http.DefaultClient, c.wanted)
		want := "<nil>"
		if c.fault != "" {
			want = "cannot measure " + s.URL + ": " + c.fault
		}
		if model != c.model || fmt.Sprint(err) != want {
			t.Errorf("%d %s, wanted %q: %q, %v; want %q, %s", c.status, c.body, c.wanted, model, err, c.model, want)
		}
		if key := asked.Header.Get("Authorization"); key != "Bearer secret" {
			t.Errorf("asked with the key %q", key)
		}
	}
}

// A refusal says what it can, of errors in whatever form.
func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		status       int
		header, body string
		want         Refusal
		kind         string
	}{
		{429, "Retry-After", `{"error":{"code":"saturated","message":"full"}}`, Refusal{429, "429 Too Many Requests", "saturated", "full", true}, "status 429 (saturated)"},
		{400, "", `{"error":{"code":400,"message":"too long"}}`, Refusal{400, "400 Bad Request", "", "too long", false}, "status 400"},
		{502, "", `<html>`, Refusal{502, "502 Bad Gateway", "", "", false}, "status 502"},
	} {
		s, asked := answers(t, c.status, c.header, c.body)
		_, err := s.Ask(t.Context(), http.DefaultClient, Clock(), Question{Model: "a", Task: "task", Prompt: "hello", Tokens: 3})
		var got *Refusal
		if !errors.As(err, &got) || *got != c.want || err.Error() != c.kind {
			t.Errorf("%s: %+v, %v; want %+v, %s", c.body, got, err, c.want, c.kind)
		}
		if text, _ := io.ReadAll(asked.Body); asked.Header.Get("X-Gearshift-Task") != "task" || !strings.Contains(string(text), `"hello"`) {
			t.Errorf("asked with %v\n%s", asked.Header, text)
		}
	}
}
