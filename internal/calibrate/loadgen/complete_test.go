package loadgen

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A whole answer is what its first choice says, with the tokens that the server states.
func TestComplete(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   Completion
		fault  string
	}{
		{200, `{"choices":[{"message":{"role":"assistant","content":"42"},"finish_reason":"stop","logprobs":{}}],"usage":{"prompt_tokens":7,"completion_tokens":1}}`, Completion{Text: "42", Prompt: 7, Output: 1}, ""},
		{200, `{"choices":[{"message":{"content":"4"},"finish_reason":"length"}]}`, Completion{Text: "4", Cut: true}, ""},
		{200, `{"choices":[{"message":{"content":null,"tool_calls":[]},"finish_reason":"tool_calls"}]}`, Completion{}, ""},
		{200, `{"choices":[]}`, Completion{}, "no chat completion"},
		{200, `{"choices":[{"text":"42"}]}`, Completion{}, "no chat completion"},
		{200, `<html>`, Completion{}, "no chat completion"},
		{429, `{"error":{"code":"saturated","message":"full"}}`, Completion{}, "status 429 (saturated)"},
	} {
		s, asked := answers(t, c.status, "", c.body)
		got, err := s.Complete(t.Context(), http.DefaultClient, Question{Model: "a", Task: "task", Prompt: "hello", Tokens: 3})
		if got != c.want || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %+v, %v; want %+v, %s", c.body, got, err, c.want, c.fault)
		}
		if refused := errors.As(err, new(*Refusal)); refused != (c.status != 200) {
			t.Errorf("%s: refused %v", c.body, refused)
		}
		text, _ := io.ReadAll(asked.Body)
		const want = `{"model":"a","messages":[{"role":"user","content":"hello"}],"max_tokens":3}`
		if string(text) != want || asked.Header.Get("X-Gearshift-Task") != "task" || asked.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("asked with %v\n%s; want %s", asked.Header, text, want)
		}
	}
}
