package loadgen

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// OpenLoop begins n requests, each at its time, whether those before have been answered or not,
// and waits for all of them. It begins none after the end of the context.
func OpenLoop(ctx context.Context, since func() time.Duration, n int, at func(i int) time.Duration, send func(i int)) {
	var all sync.WaitGroup
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := range n {
		if !await(ctx, timer, at(i)-since()) {
			break
		}
		all.Go(func() { send(i) })
	}
	all.Wait()
}

// await waits for so long; false if the context ends meanwhile.
func await(ctx context.Context, timer *time.Timer, wait time.Duration) bool {
	timer.Reset(wait)
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// Clock starts a clock: the function that it returns says how long ago that was.
func Clock() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// Order is a request to be sent at a time, to one of several targets.
type Order struct {
	At             time.Duration
	Target         int
	Task           string // for a router; empty says none
	Prompt, Output int    // tokens wanted
}

// Client sends orders to targets whose tokenizers it has learned.
type Client struct{ run *run }

// NewClient asks each target for its models and how it counts tokens. By is as
// [Config.Transport]. Close it.
func NewClient(ctx context.Context, targets []Target, seed uint64, by http.RoundTripper) (*Client, error) {
	r, err := begin(ctx, Config{Seed: seed, Transport: by}, targets)
	if err != nil {
		return nil, err
	}
	return &Client{r}, nil
}

// Close lets the connections go.
func (c *Client) Close() { c.run.client.CloseIdleConnections() }

// Send sends each order at its time, in an [OpenLoop]. It fails if an engine goes away or the
// context ends.
func (c *Client) Send(ctx context.Context, orders []Order) ([]Answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answers := make([]Answer, len(orders))
	texts := make([]string, len(orders))
	for i, o := range orders {
		texts[i] = c.run.prompt(c.run.words[o.Target].count(o.Prompt))
	}
	since := Clock()
	OpenLoop(ctx, since, len(orders), func(i int) time.Duration { return orders[i].At }, func(i int) {
		t := c.run.targets[orders[i].Target]
		t.task = orders[i].Task
		var err error
		answers[i], err = t.ask(ctx, c.run.client, since, texts[i], orders[i].Output, nil)
		if answers[i].Refused = errors.Is(err, ErrRefused); err != nil && !answers[i].Refused {
			cancel(err)
		}
	})
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("cannot go on: %w", err)
	}
	return answers, nil
}
