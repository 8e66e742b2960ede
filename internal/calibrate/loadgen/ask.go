package loadgen

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Asker asks models for whole answers.
type Asker struct {
	client  *http.Client
	timeout time.Duration
}

// NewAsker returns an asker that waits so long for each answer.
func NewAsker(timeout time.Duration) *Asker {
	return &Asker{client: &http.Client{Transport: Transport()}, timeout: timeout}
}

// Connect finds a model of the server, as [Server.Model] does, and returns a function that asks it.
func (a *Asker) Connect(ctx context.Context, s Server, model string) (func(context.Context, Question) (Completion, error), error) {
	model, err := s.Model(ctx, a.client, model)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, q Question) (Completion, error) {
		q.Model = model
		timed, cancel := context.WithTimeout(ctx, a.timeout)
		defer cancel()
		c, err := s.Complete(timed, a.client, q)
		if err != nil && timed.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("no answer within %v (--timeout)", a.timeout)
		}
		return c, err
	}, nil
}
