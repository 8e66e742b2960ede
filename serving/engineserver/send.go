package engineserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 1 << 20

// send asks the router, and decodes the answer unless to is nil.
func (a *Agent) send(ctx context.Context, method, path string, limit time.Duration, body, to any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, a.router.JoinPath(path).String(), bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := askRouter(a.client, request, a.config.Token)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("cannot read the router's answer: %w", err)
	}
	if to == nil {
		return nil
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("%s does not answer as a router's admin listener: %w", a.router, err)
	}
	return nil
}

// askRouter sends the request. The error is a *[refusal] where the answer is no success.
func askRouter(client *http.Client, r *http.Request, token string) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(r)
	if err != nil {
		if cause := context.Cause(r.Context()); cause != nil {
			err = cause
		}
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, fmt.Errorf("cannot reach the router: %w", err)
	}
	if response.StatusCode/100 == 2 {
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	var e struct{ Error struct{ Message string } }
	_ = json.Unmarshal(text, &e)
	return nil, &refusal{response.StatusCode, e.Error.Message}
}

// refusal is an answer of the router that is no success.
type refusal struct {
	status int
	said   string // in the router's words; empty if it has none
}

// Error implements [error].
func (r *refusal) Error() string {
	if r.said == "" {
		return fmt.Sprintf("the router answers %d %s", r.status, http.StatusText(r.status))
	}
	return "the router refuses: " + r.said
}

// final reports whether the same request will be refused again, for what it says or who asks. A
// conflict is over when the engine that was on the host before has not been heard for a while.
func (r *refusal) final() bool {
	switch r.status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	}
	return r.status/100 == 4 || r.status/100 == 3
}
