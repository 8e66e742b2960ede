package loadgen

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Target is an engine that answers for a model.
type Target struct {
	// URL of the server, with or without /v1.
	URL string
	// Model to ask for. Empty is the only one that the server has.
	Model string
	// Key, if not empty, is sent as a bearer token.
	Key string

	task string // of a request to a router
}

// Parse reads a target written as URL or URL=MODEL.
func Parse(text string) (Target, error) {
	t := Target{URL: text}
	// An URL may hold an equals sign in a query, which no server's base has.
	if address, model, named := strings.Cut(text, "="); named {
		t.URL, t.Model = address, model
	}
	base, ok := Base(t.URL)
	if !ok {
		return t, fmt.Errorf("%q: want the URL of an engine, such as http://127.0.0.1:8101/v1, or URL=MODEL", text)
	}
	t.URL = base
	return t, nil
}

// ErrRefused is that an engine does not take a request as it is: one too long, or
// one too many. Others may do.
var ErrRefused = errors.New("refused")

func (t *Target) server() Server {
	return Server{URL: t.URL, Key: t.Key, Purpose: "measure"}
}

// ask sends a request for so many tokens. An answer that does not say what it holds cannot be
// measured, and is an error.
func (t *Target) ask(ctx context.Context, client *http.Client, since func() time.Duration, prompt string, tokens int, first func()) (Answer, error) {
	a, err := t.server().Ask(ctx, client, since, Question{Model: t.Model, Task: t.task, Prompt: prompt, Tokens: tokens, First: first})
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		return a, t.refused(refusal)
	case err != nil:
		return a, t.gone(ctx, err)
	case len(a.Pieces) == 0:
		return a, fmt.Errorf("cannot measure %s: an answer of %s has no content", t.URL, t.Model)
	case a.Prompt == 0 || a.Output == 0:
		return a, fmt.Errorf("cannot measure %s: it does not tell the tokens of an answer (usage, with stream_options.include_usage)", t.URL)
	}
	return a, nil
}

// refused is an answer that is no success.
func (t *Target) refused(r *Refusal) error {
	why := r.Status
	if r.Message != "" {
		why += ": " + oneLine(r.Message)
	}
	switch {
	case r.StatusCode == http.StatusTooManyRequests, r.StatusCode == http.StatusServiceUnavailable && r.Later,
		r.StatusCode == http.StatusBadRequest, r.StatusCode == http.StatusRequestEntityTooLarge:
		return fmt.Errorf("%s: %w with %s", t.Model, ErrRefused, why)
	}
	return fmt.Errorf("cannot measure %s: it answered %s", t.URL, why)
}

// gone is that the engine went away, or the measurement was ended.
func (t *Target) gone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("the engine at %s went away: %w", t.URL, Plain(err))
}

func oneLine(text string) string {
	const most = 200
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = text[:most] + "…"
	}
	return text
}
