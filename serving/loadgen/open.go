package loadgen

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Order is a request to be sent at a time, to one of several targets.
type Order struct {
	At             time.Duration
	Target         int
	Task           string // for a router; empty says none
	Prompt, Output int    // tokens wanted
}

// Answer is what came of an order. Times are from the beginning.
type Answer struct {
	PromptTokens, OutputTokens int
	Sent, First, Last          time.Duration
	// Variant and Policy are what a router says of its choice.
	Variant, Policy string
	// Refused says that it was answered with an error; all else is zero then but Sent.
	Refused bool
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

// Send sends each order at its time, whether answers keep up or not, and waits for
// all answers. It fails if an engine goes away or the context ends.
func (c *Client) Send(ctx context.Context, orders []Order) ([]Answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answers := make([]Answer, len(orders))
	begin := time.Now()
	since := func() time.Duration { return time.Since(begin) }
	var all sync.WaitGroup
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i, o := range orders {
		text := c.run.prompt(c.run.words[o.Target].count(o.Prompt))
		if !Await(ctx, timer, o.At-since()) {
			break
		}
		all.Go(func() {
			t := c.run.targets[o.Target]
			t.task = o.Task
			h, err := t.ask(ctx, c.run.client, since, text, o.Output, nil)
			switch {
			case errors.Is(err, ErrRefused):
				answers[i] = Answer{Sent: h.sent, Refused: true}
			case err != nil:
				cancel(err)
			default:
				answers[i] = Answer{
					PromptTokens: h.prompt, OutputTokens: h.output, Sent: h.sent, First: h.tokens[0], Last: h.tokens[len(h.tokens)-1],
					Variant: h.header.Get("X-Gearshift-Variant"), Policy: h.header.Get("X-Gearshift-Policy"),
				}
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("cannot go on: %w", err)
	}
	return answers, nil
}
