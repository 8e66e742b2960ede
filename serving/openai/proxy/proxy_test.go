package proxy_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/health"
	"gearshift/serving/config"
	"gearshift/serving/engines/gauges"
	"gearshift/serving/openai/proxy"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// record is what the proxy reports, in order: it is its Health and its Metrics.
type record struct {
	events, loads []string
	asks          bool // replicas for their load
}

func (r *record) add(format string, args ...any) {
	r.events = append(r.events, fmt.Sprintf(format, args...))
}

func (r *record) Failed(replica int, why health.Failure, _ time.Duration) {
	r.add("failed %d %s", replica, why)
}
func (r *record) Erred(replica int, fault bool, _ time.Duration) bool {
	r.add("erred %d %v", replica, fault)
	return true
}
func (r *record) Agreed(replica int, _ time.Duration)    { r.add("agreed %d", replica) }
func (r *record) Doubted(int) bool                       { return false }
func (r *record) Succeeded(replica int, _ time.Duration) { r.add("succeeded %d", replica) }
func (r *record) Busy(int, bool, time.Duration) bool     { return false }
func (r *record) Answers(int, time.Duration) bool        { return true }
func (r *record) Dispatched(time.Duration)               { r.add("dispatched") }
func (r *record) Retried(reason string, sameVariant bool) {
	r.add("retried %s %v", reason, sameVariant)
}
func (r *record) Exhausted()                  { r.add("exhausted") }
func (r *record) Hedged(result string)        { r.add("hedged %s", result) }
func (r *record) TimedOut(phase config.Phase) { r.add("timed out %v", phase) }

// first is a policy and a balancer: what comes first and is available.
type first struct{}

func (first) Name() string                                      { return "first" }
func (first) Scratch() int                                      { return 0 }
func (first) Decide(*fleet.View, *fleet.Request, []float32) int { return 0 }
func (first) Pick(v *fleet.View, _ *fleet.Request, variant int, _ uint64) int {
	return slices.IndexFunc(v.Table.ReplicasOf(variant), v.Available)
}

// says is a replica that gives one answer.
type says struct {
	status int
	body   string
}

func (s says) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := context.Cause(r.Context()); err != nil {
		return nil, err
	}
	h := http.Header{"Content-Type": {"application/json"}}
	if r.Header.Get("Endpoint-Load-Metrics-Format") == "TEXT" {
		h.Set("Endpoint-Load-Metrics", "TEXT eps=0")
	}
	return &http.Response{
		StatusCode: s.status, Status: http.StatusText(s.status), ContentLength: -1,
		Header: h, Body: io.NopCloser(strings.NewReader(s.body)),
	}, nil
}

const (
	fine   = `{"choices":[{"index":0,"message":{"role":"assistant","content":"a b"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`
	broken = `{"error":{"message":"boom","type":"server_error","code":null}}`
	bad    = `{"error":{"message":"no such tool","type":"invalid_request_error","code":null}}`
	lacks  = `{"error":{"message":"no such endpoint","type":"invalid_request_error","code":"unsupported_endpoint"}}`
)

// Asks, Header and Own implement [proxy.Loads].
func (r *record) Asks() bool { return r.asks }

func (r *record) Header(replica int, h http.Header) {
	if value := h.Get("Endpoint-Load-Metrics"); value != "" {
		r.loads = append(r.loads, fmt.Sprint(replica, " ", value))
	}
}

func (r *record) Own(f gauges.Format) string { return fmt.Sprint("own ", f) }

// The load that a replica reports is for the router. Its client gets the router's own, if it asks.
func TestLoads(t *testing.T) {
	for _, asks := range []bool{false, true} {
		f := newFixture(t, [2]says{{200, fine}, {200, fine}}, 0)
		f.reports.asks = asks
		recorder, _, _ := f.serve(0, func() {})
		want := []string{"0 TEXT eps=0"}
		if !asks {
			want = nil
		}
		if !slices.Equal(f.reports.loads, want) || recorder.Header().Get("Endpoint-Load-Metrics") != "" {
			t.Errorf("asked %v: heard %q, want %q; the client got %v", asks, f.reports.loads, want, recorder.Header())
		}
		f.header = http.Header{"Endpoint-Load-Metrics-Format": {"json"}}
		if recorder, _, _ = f.serve(0, func() {}); recorder.Header().Get("Endpoint-Load-Metrics") != "own 2" {
			t.Errorf("a client that asks gets %v", recorder.Header())
		}
	}
}

// TestAttempts: what the first of two replicas answers decides whether the second is asked, and
// each event is reported once. No server is around the proxy.
func TestAttempts(t *testing.T) {
	classify := slices.IndexFunc(proxy.Endpoints[:], func(e proxy.Endpoint) bool { return e.Operation == "classify" })
	for name, c := range map[string]struct {
		answers  [2]says
		endpoint int // in proxy.Endpoints; 0 is chat completions
		retries  int
		status   int
		outcome  work.Outcome
		reported []string
	}{
		"the first answers":      {[2]says{{200, fine}, {200, fine}}, 0, 1, 200, work.Completed, []string{"dispatched", "succeeded 0"}},
		"the first fails":        {[2]says{{500, broken}, {200, fine}}, 0, 1, 500, work.Failed, []string{"dispatched", "erred 0 true"}},
		"the first is down":      {[2]says{{503, broken}, {200, fine}}, 0, 1, 200, work.Completed, []string{"dispatched", "erred 0 true", "retried status true", "succeeded 1"}},
		"both are down":          {[2]says{{503, broken}, {502, broken}}, 0, 1, 502, work.Failed, []string{"dispatched", "erred 0 true", "retried status true", "erred 1 true", "agreed 0", "agreed 1"}},
		"no retries":             {[2]says{{503, broken}, {200, fine}}, 0, 0, 503, work.Failed, []string{"dispatched", "erred 0 true"}},
		"the client is at fault": {[2]says{{400, bad}, {200, fine}}, 0, 1, 400, work.Refused, []string{"dispatched", "erred 0 false"}},
		"one lacks the endpoint": {[2]says{{404, lacks}, {200, fine}}, classify, 1, 200, work.Completed, []string{"dispatched", "retried no_endpoint true", "succeeded 1"}},
		"both lack the endpoint": {[2]says{{404, lacks}, {404, lacks}}, classify, 1, 404, work.Refused, []string{"dispatched", "retried no_endpoint true"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, c.answers, c.retries)
			recorder, outcome, cut := f.serve(c.endpoint, func() {})
			if recorder.Code != c.status || outcome != c.outcome || cut || f.core.Ledger().InFlight() != 0 {
				t.Errorf("status %d, %v, broken %v; want %d, %v", recorder.Code, outcome, cut, c.status, c.outcome)
			}
			if !slices.Equal(f.reports.events, c.reported) {
				t.Errorf("reported %q, want %q", f.reports.events, c.reported)
			}
		})
	}
}

// A host may be lost after a request was routed there, and before it is sent. Nobody would end
// that attempt later.
func TestALossBetweenChoiceAndSending(t *testing.T) {
	f := newFixture(t, [2]says{{200, fine}, {200, fine}}, 1)
	recorder, outcome, cut := f.serve(0, func() {
		f.core.Ledger().SetUp(0, false)
		if n := f.Lost(0); n != 0 {
			t.Errorf("%d attempts were there", n)
		}
	})
	if recorder.Code != 200 || outcome != work.Completed || cut || recorder.Header().Get("X-Gearshift-Replica") != "small@2" {
		t.Errorf("status %d, %v, broken %v, %v", recorder.Code, outcome, cut, recorder.Header())
	}
	if want := []string{"dispatched", "retried lost true", "succeeded 1"}; !slices.Equal(f.reports.events, want) {
		t.Errorf("reported %q, want %q", f.reports.events, want)
	}
}

// fixture is a proxy before two replicas, and what it reports.
type fixture struct {
	*proxy.Proxy
	t       *testing.T
	core    *router.Core
	adapter *work.Adapter
	clock   work.Clock
	reports *record
	header  http.Header // of the client's requests
}

func newFixture(t *testing.T, answers [2]says, retries int) *fixture {
	t.Helper()
	table, err := fleet.NewTable(
		[]fleet.Task{{Name: "chat", Deadline: time.Second, Weight: 1, Quality: []float64{1}}}, []fleet.Variant{{Name: "small"}},
		[]fleet.Host{{Name: "a"}}, []fleet.Replica{{Name: "small@1"}, {Name: "small@2"}})
	if err != nil {
		t.Fatal(err)
	}
	core, err := router.New(router.Config{Ledger: fleet.NewLedger(table), Fallback: first{}, Balancer: first{}})
	if err != nil {
		t.Fatal(err)
	}
	settings, clock, reports := config.Default(), work.WallClock(), &record{}
	settings.Retries.Max = retries
	adapter := work.NewAdapter(core, clock)
	p := proxy.New(proxy.Options{
		Table: table, Backends: []config.Backend{{Transport: answers[0]}, {Transport: answers[1]}},
		Settings: func() *config.Config { return &settings }, Clock: clock, Log: slog.New(slog.DiscardHandler),
		Reply: &proxy.Writer{
			Settings: func() *config.Config { return &settings }, Ending: func() bool { return false }, Failed: func(*gin.Context, string) {},
		},
		Health: reports, Metrics: reports, Memory: room{}, Prompts: adapter.Prompts, Events: adapter.Events,
		Keyed: func(int) bool { return false }, Context: func(int) int { return 0 },
		Unlisted: func(replica int) { reports.add("unlisted %d", replica) },
		Loads:    reports,
		Keep:     func(string, int, string) { t.Error("a response is kept") }, Trusts: func(string) bool { return false },
	})
	return &fixture{p, t, core, adapter, clock, reports, http.Header{}}
}

// serve routes a request to the endpoint with that index, calls between, and has the request
// answered.
func (f *fixture) serve(endpoint int, between func()) (recorder *httptest.ResponseRecorder, outcome work.Outcome, cut bool) {
	f.t.Helper()
	recorder = httptest.NewRecorder()
	g, _ := gin.CreateTestContext(recorder)
	g.Request = httptest.NewRequest(http.MethodPost, proxy.Endpoints[endpoint].Path, nil)
	g.Request.Header = f.header
	request, err := wire.ParseRequest([]byte(`{"model":"auto","messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		f.t.Fatal(err)
	}
	w := f.adapter.Arrive(fleet.Request{PromptTokens: 1})
	if err := w.Begin(work.Auto, nil); err != nil {
		f.t.Fatal(err)
	}
	between()
	outcome, _, cut = f.Serve(g, proxy.Call{
		Request: request, Endpoint: &proxy.Endpoints[endpoint], Work: w, Variant: work.Auto, Received: f.clock(), Until: time.Hour,
	})
	w.End(outcome, 0)
	return recorder, outcome, cut
}

// room is memory without end.
type room struct{}

func (room) Keep(int64) bool { return true }
func (room) Drop(int64)      {}
func (room) Take(int64) bool { return true }
func (room) Give(int64)      {}
