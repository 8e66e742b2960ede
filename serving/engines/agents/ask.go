package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Engine is a server that can be asked for paths of its own, with the credentials that
// the router has for it.
type Engine interface {
	// Ask sends a request and returns the answer, whose body the caller closes. The header has
	// fields in addition to the router's own. A body is JSON; nil is none.
	Ask(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error)
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 4 << 20

// refusal is an engine's answer that is no success.
type refusal struct {
	status int
	// said is the engine's own message, on one line; empty if it has none.
	said string
}

// Error implements error.
func (r *refusal) Error() string {
	if r.said == "" {
		return fmt.Sprintf("the engine answers %d %s", r.status, http.StatusText(r.status))
	}
	return fmt.Sprintf("the engine answers %d: %s", r.status, r.said)
}

// absent reports whether the error says that the engine has no such path. An answer that
// explains itself is about the model.
func absent(err error) bool {
	var r *refusal
	if !errors.As(err, &r) {
		return false
	}
	switch r.status {
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	case http.StatusNotFound:
		said := strings.ToLower(strings.Trim(r.said, " ."))
		return said == "" || said == "not found" || said == "404 page not found" || strings.HasPrefix(said, "there is no ")
	}
	return false
}

// ask sends a request and reads the answer into to, unless that is nil.
func ask(ctx context.Context, e Engine, method, path string, body, to any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	response, err := e.Ask(ctx, method, path, nil, text)
	if err != nil {
		return unreached(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return unreached(ctx, err)
	}
	if response.StatusCode/100 != 2 {
		return superseded(&refusal{status: response.StatusCode, said: words(text)}, response.Header)
	}
	if to == nil {
		return nil
	}
	if err := json.Unmarshal(bytes.TrimSpace(text), to); err != nil {
		return fmt.Errorf("the engine's answer to %s %s is not what the protocol says: %w", method, pathOf(path), err)
	}
	return nil
}

// unreached says in one line why no answer came.
func unreached(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("the engine has not answered in time")
	}
	return fmt.Errorf("%w: %w", errGone, err)
}

// errGone is the error of an engine that cannot be connected to, or that broke off.
var errGone = errors.New("the engine is gone")

func pathOf(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return path
}

// maxWords bounds what is quoted of an engine's words.
const maxWords = 300

// words is what an engine's error says, on one line: the message of Triton's, OpenAI's or
// FastAPI's shape, or a short plain text.
func words(body []byte) string {
	var shaped struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	text := string(body)
	if json.Unmarshal(body, &shaped) == nil {
		var nested struct{ Message string }
		switch {
		case json.Unmarshal(shaped.Error, &text) == nil:
		case json.Unmarshal(shaped.Error, &nested) == nil && nested.Message != "":
			text = nested.Message
		case json.Unmarshal(shaped.Detail, &text) == nil:
		case shaped.Message != "":
			text = shaped.Message
		}
	} else if strings.HasPrefix(strings.TrimSpace(text), "<") { // a page of HTML
		return ""
	}
	return line(text)
}

// line is the text without control characters, with single spaces, and clipped.
func line(text string) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "?"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if utf8.RuneCountInString(text) <= maxWords {
		return text
	}
	return string([]rune(text)[:maxWords]) + "…"
}
