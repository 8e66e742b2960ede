// Package replay is an open-loop client: it sends a workload to a live router
// at the workload's own pace, whether answers keep up or not, and reports what
// came back. It measures from outside, over HTTP, what the simulator predicts.
package replay

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"gearshift/router/fleet"
	"gearshift/serving/loadgen"
	"gearshift/workloads"
)

// Config is one replay.
type Config struct {
	// URL of the server, with or without /v1.
	URL string
	// Model to ask for. Empty is "auto".
	Model string
	// Key, if not empty, is sent as a bearer token.
	Key string
	// Table has the tasks, by which answers are judged, and the variants.
	Table *fleet.Table
	// Requests says what to send when; it must end.
	Requests workloads.Stream
	// Timeout bounds each request. Zero is 10 minutes.
	Timeout time.Duration
	// Progress, if not nil, is called about once a second, and at the end.
	Progress func(Progress)
}

// Progress is how far a replay has come.
type Progress struct {
	Elapsed        time.Duration
	Sent, Answered int
}

// Run sends the requests and waits for all answers. If the context ends it
// stops, and reports on the requests that have been answered by then. It fails
// only, and before anything is sent, if the server cannot be reached, does not know the
// model, or routes another scenario; errors of single requests are part of the report.
func Run(ctx context.Context, c Config) (Report, error) {
	if c.Model == "" {
		c.Model = "auto"
	}
	if c.Timeout <= 0 {
		c.Timeout = 10 * time.Minute
	}
	base, ok := loadgen.Base(c.URL)
	if !ok {
		return Report{}, fmt.Errorf("cannot replay to %q: want the URL of a server, such as http://127.0.0.1:8080", c.URL)
	}
	r := &run{
		Config: c, server: loadgen.Server{URL: base, Key: c.Key, Purpose: "replay to"},
		client: &http.Client{Transport: loadgen.Transport()}, tally: newTally(c.Table),
	}
	defer r.client.CloseIdleConnections()
	if err := r.check(ctx); err != nil {
		return Report{}, err
	}
	r.send(ctx)
	return r.tally.report(), nil
}

// run is a replay under way.
type run struct {
	Config
	server loadgen.Server
	client *http.Client
	start  time.Time

	mu    sync.Mutex // protects all below
	tally *tally
	sent  int
}

// send is the open loop: each request leaves at its time.
func (r *run) send(ctx context.Context) {
	var requests sync.WaitGroup
	r.start = time.Now()
	stop := r.report(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		a, ok := r.Requests.Next()
		if !ok || !loadgen.Await(ctx, timer, a.At-time.Since(r.start)) {
			break
		}
		r.mu.Lock()
		r.sent++
		r.mu.Unlock()
		requests.Go(func() { r.one(ctx, a) })
	}
	requests.Wait()
	stop()
}

// report calls Progress until the function that it returns is called.
func (r *run) report(ctx context.Context) (stop func()) {
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

func (r *run) progress() {
	r.mu.Lock()
	p := Progress{Elapsed: time.Since(r.start), Sent: r.sent, Answered: r.tally.answered()}
	r.mu.Unlock()
	r.Progress(p)
}
