package loadgen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"gearshift/router/fleet"
	"gearshift/workloads"
)

// This file has an open-loop client: it sends a workload to a live router
// at the workload's own times, whether answers keep up or not, and reports what
// came back. It measures from outside, over HTTP, what the simulator predicts.

// ReplayConfig sets up one replay.
type ReplayConfig struct {
	// URL of the server, with or without /v1.
	URL string
	// Model to ask for. Empty is "auto".
	Model string
	// Key, if not empty, is sent as a bearer token.
	Key string
	// Table has the tasks, by which answers are judged, and the variants.
	Table *fleet.Table
	// Requests are what to send, in the order of their times.
	Requests workloads.Given
	// Timeout bounds each request. Zero is 10 minutes.
	Timeout time.Duration
	// Progress, if not nil, is called about once a second, and at the end.
	Progress func(ReplayProgress)
}

// ReplayProgress counts how far a replay has come.
type ReplayProgress struct {
	Elapsed        time.Duration
	Sent, Answered int
}

// Replay sends the requests and waits for all answers. If the context ends it
// stops, and reports on the requests that have been answered by then. It fails
// only, and before anything is sent, if the server cannot be reached, does not know the
// model, or routes another scenario; errors of single requests are part of the report.
func Replay(ctx context.Context, c ReplayConfig) (ReplayReport, error) {
	if c.Model == "" {
		c.Model = "auto"
	}
	if c.Timeout <= 0 {
		c.Timeout = 10 * time.Minute
	}
	base, ok := Base(c.URL)
	if !ok {
		return ReplayReport{}, fmt.Errorf("cannot replay to %q: want the URL of a server, such as http://127.0.0.1:8080", c.URL)
	}
	r := &replayRun{
		ReplayConfig: c, server: Server{URL: base, Key: c.Key, Purpose: "replay to"},
		client: &http.Client{Transport: Transport()}, tally: newTally(c.Table),
	}
	defer r.client.CloseIdleConnections()
	if err := r.check(ctx); err != nil {
		return ReplayReport{}, err
	}
	r.send(ctx)
	return r.tally.report(), nil
}

// run is a replay under way.
type replayRun struct {
	ReplayConfig
	server Server
	client *http.Client
	since  func() time.Duration // the start

	mu    sync.Mutex // protects all below
	tally *tally
	sent  int
}

// check asks the server for what the replay rests on, before anything is sent: that it
// answers, that it has the model and, of a router, that its scenario has the tasks that are
// asked for and no size that answers could not be judged by.
func (r *replayRun) check(ctx context.Context) error {
	if _, err := r.server.Model(ctx, r.client, r.Model); errors.Is(err, ErrKey) {
		return fmt.Errorf("%w (--api-key-env NAME)", err)
	} else if err != nil {
		return err
	}
	router, ok := r.server.Router(ctx, r.client)
	if !ok {
		return nil
	}
	r.tally.policy = router.Policy
	for i, task := range r.Table.Tasks {
		if r.asksFor(i) && !slices.Contains(router.Tasks, task.Name) {
			return fmt.Errorf("cannot replay to %s: it has no task %q of the scenario; it has %s: give the scenario that it serves with --scenario",
				r.server.URL, task.Name, strings.Join(router.Tasks, ", "))
		}
	}
	for _, variant := range router.Variants {
		if r.Table.VariantIndex(variant) < 0 {
			return fmt.Errorf("cannot replay to %s: it serves the size %q, which the scenario does not have; give the scenario that it serves", r.server.URL, variant)
		}
	}
	return nil
}

// asksFor reports whether there are requests of the task.
func (r *replayRun) asksFor(task int) bool {
	return slices.ContainsFunc(r.Requests, func(a workloads.Arrival) bool { return a.Task == task })
}

// send sends each request at its time.
func (r *replayRun) send(ctx context.Context) {
	r.since = Clock()
	stop := r.report(ctx)
	list := r.Requests
	OpenLoop(ctx, r.since, len(list), func(i int) time.Duration { return list[i].At }, func(i int) { r.one(ctx, &list[i]) })
	stop()
}

// one sends a request and enters how it went. Requests that the end of the
// whole replay cut short are left out.
func (r *replayRun) one(ctx context.Context, a *workloads.Arrival) {
	r.mu.Lock()
	r.sent++
	r.mu.Unlock()
	timed, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	answer, err := r.server.Ask(timed, r.client, r.since, Question{
		Model: r.Model, Task: r.Table.Tasks[a.Task].Name, Tokens: a.OutputTokens,
		Prompt: strings.TrimSuffix(strings.Repeat("word ", a.PromptTokens), " "),
	})
	o := outcome{
		task: a.Task, variant: answer.Header.Get("X-Gearshift-Variant"), tokens: answer.Tokens,
		first: max(0, answer.First()-a.At), total: answer.End - a.At, late: answer.Sent - a.At, ended: r.since(),
	}
	if o.variant == "" {
		o.variant = r.Model
	}
	switch {
	case answer.Header != nil && r.Table.VariantIndex(o.variant) < 0:
		o.fault = "answer names no known variant"
	case err != nil:
		o.fault = fault(err)
	case o.tokens == 0:
		o.fault = brokenOff
	}
	if ctx.Err() != nil && o.fault != "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.add(o)
}

const brokenOff = "answer broke off"

// fault sorts errors into few kinds.
func fault(err error) string {
	var (
		op      *net.OpError
		timeout interface{ Timeout() bool }
		refusal *Refusal
	)
	switch {
	case errors.As(err, &refusal):
		return refusal.Error()
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.As(err, &op) && op.Op == "dial":
		return "cannot connect"
	}
	return brokenOff
}

// report calls Progress until the function that it returns is called.
func (r *replayRun) report(ctx context.Context) (stop func()) {
	if r.Progress == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				r.progress()
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		ended.Wait()
		r.progress()
	}
}

func (r *replayRun) progress() {
	r.mu.Lock()
	p := ReplayProgress{Elapsed: r.since(), Sent: r.sent, Answered: r.tally.answered()}
	r.mu.Unlock()
	r.Progress(p)
}
