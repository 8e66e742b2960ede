// Package replay is an open-loop client: it sends a workload to a live router
// at the workload's own pace, whether answers keep up or not, and reports what
// came back. It measures from outside, over HTTP, what the simulator predicts.
package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"gearshift/router/fleet"
	"gearshift/serving/wire"
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
// only if the server cannot be reached or does not know the model; errors of
// single requests are part of the report.
func Run(ctx context.Context, c Config) (Report, error) {
	if c.Model == "" {
		c.Model = "auto"
	}
	if c.Timeout <= 0 {
		c.Timeout = 10 * time.Minute
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return Report{}, fmt.Errorf("cannot replay to %q: want the URL of a server, such as http://127.0.0.1:8080", c.URL)
	}
	c.URL = strings.TrimSuffix(strings.TrimSuffix(c.URL, "/"), "/v1")
	// An open loop has as many connections as it needs, and keeps them.
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 4096, IdleConnTimeout: 30 * time.Second, DisableCompression: true}
	defer transport.CloseIdleConnections()
	r := &run{Config: c, client: &http.Client{Transport: transport}, tally: newTally(c.Table)}
	if err := r.check(ctx); err != nil {
		return Report{}, err
	}
	r.send(ctx)
	return r.tally.report(), nil
}

// run is a replay under way.
type run struct {
	Config
	client *http.Client
	start  time.Time

	mu    sync.Mutex // protects all below
	tally *tally
	sent  int
}

// check asks for the list of models before anything is sent.
func (r *run) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := r.request(ctx, http.MethodGet, "/v1/models", nil)
	if err != nil {
		return fmt.Errorf("cannot replay to %q: %w", r.URL, err)
	}
	response, err := r.client.Do(request)
	if err != nil {
		var without *url.Error // the URL is in the message as it is
		if errors.As(err, &without) {
			err = without.Err
		}
		return fmt.Errorf("cannot reach %s: %w", r.URL, err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusUnauthorized {
		return fmt.Errorf("cannot replay to %s: it asks for an API key that it knows (--api-key-env NAME)", r.URL)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	var models wire.Models
	if err == nil && response.StatusCode == http.StatusOK {
		err = json.Unmarshal(body, &models)
	}
	if err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("cannot replay to %s: GET /v1/models answered %s; it needs an OpenAI-compatible server", r.URL, response.Status)
	}
	names := make([]string, len(models.Data))
	for i, m := range models.Data {
		names[i] = m.ID
	}
	if !slices.Contains(names, r.Model) {
		return fmt.Errorf("cannot replay to %s: it has no model %q; it has %s", r.URL, r.Model, strings.Join(names, ", "))
	}
	return nil
}

// request is one to the server, with the key.
func (r *run) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, method, r.URL+path, body)
	if err == nil && r.Key != "" {
		request.Header.Set("Authorization", "Bearer "+r.Key)
	}
	return request, err
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
		if !ok || !r.until(ctx, timer, a.At) {
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

// until waits for the time; false if the context ends first.
func (r *run) until(ctx context.Context, timer *time.Timer, at time.Duration) bool {
	timer.Reset(at - time.Since(r.start))
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
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
