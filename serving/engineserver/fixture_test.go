package engineserver

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"gearshift/env/engine"
	"gearshift/internal/memnet"
	"gearshift/router/fleet"
	"gearshift/router/profile"
	"gearshift/serving/backend"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// drawn is the length of answers that no limit cuts short.
const drawn = 5

const (
	hello   = `"messages":[{"role":"user","content":"how do gears turn"}]`
	ask     = `{"model":"small",` + hello + `}`
	stream  = `{"model":"small",` + hello + `,"stream":true}`
	endless = `{"model":"small",` + hello + `,"max_tokens":2000,"ignore_eos":true`
)

// rig is a server with "small" and "large" on one host, whose steps take 10 ms,
// behind connections in memory, so that the test's clock runs.
type rig struct {
	t      *testing.T
	server *Server
	client *http.Client
}

// withRig runs the test in a bubble of its own.
func withRig(t *testing.T, change func(*Config), test func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := testConfig(t)
		if change != nil {
			change(&c)
		}
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		l := memnet.Listen()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Serve(ctx, l) }()
		test(&rig{t, s, l.Client()})
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func testConfig(t *testing.T) Config {
	t.Helper()
	c := Config{Faulty: true, Engines: backend.SimulatedConfig{OutputTokens: func(*rand.Rand) int { return drawn }}}
	var err error
	c.Engines.Table, err = fleet.NewTable(
		[]fleet.Task{{Name: "task", Deadline: time.Second, Weight: 1, Quality: []float64{0.5, 1}}},
		[]fleet.Variant{{Name: "small"}, {Name: "large"}},
		[]fleet.Host{{Name: "host"}},
		[]fleet.Replica{{Name: "small@host", KVTokens: 4096}, {Name: "large@host", Variant: 1, KVTokens: 4096}},
	)
	if err != nil {
		t.Fatal(err)
	}
	for range c.Engines.Table.Replicas {
		e, err := engine.New(engine.Config{Scheduler: engine.PrefillFirst, MaxBatchTokens: 64, MaxSequences: 8, BlockTokens: 4}, &profile.Profile{Overhead: 10}, 4096)
		if err != nil {
			t.Fatal(err)
		}
		c.Engines.Engines = append(c.Engines.Engines, e)
	}
	return c
}

// begin sends a request.
func (r *rig) begin(ctx context.Context, method, path, body string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://engine"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	return r.client.Do(request)
}

// do sends a request and reads the answer to its end, if there is one.
func (r *rig) do(ctx context.Context, method, path, body string) (status int, text string, err error) {
	response, err := r.begin(ctx, method, path, body)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	return response.StatusCode, string(all), err
}

// get is do that must work.
func (r *rig) get(method, path, body string) (int, string) {
	r.t.Helper()
	status, text, err := r.do(r.t.Context(), method, path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	return status, text
}

// metric is the value of a sample, which is named with its labels.
func (r *rig) metric(sample string) string {
	r.t.Helper()
	_, text := r.get("GET", "/metrics", "")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, sample+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	r.t.Fatalf("no metric %s in\n%s", sample, text)
	return ""
}
