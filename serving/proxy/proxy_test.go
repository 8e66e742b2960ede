package proxy_test

import (
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
	"gearshift/serving/proxy"
	"gearshift/serving/reply"
	"gearshift/serving/wire"
	"gearshift/serving/work"
)

// record is what the proxy reports, in order: it is its Health and its Metrics.
type record struct{ events []string }

func (r *record) add(format string, args ...any) {
	r.events = append(r.events, fmt.Sprintf(format, args...))
}

func (r *record) Failed(replica int, why health.Failure, _ time.Duration) {
	r.add("failed %d %s", replica, why)
}
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

func (s says) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: s.status, Status: http.StatusText(s.status), ContentLength: -1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(s.body)),
	}, nil
}

const (
	fine   = `{"choices":[{"index":0,"message":{"role":"assistant","content":"a b"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`
	broken = `{"error":{"message":"boom","type":"server_error","code":null}}`
	bad    = `{"error":{"message":"no such tool","type":"invalid_request_error","code":null}}`
	lacks  = `{"error":{"message":"no such endpoint","type":"invalid_request_error","code":"unsupported_endpoint"}}`
)

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
		"the first fails":        {[2]says{{500, broken}, {200, fine}}, 0, 1, 500, work.Failed, []string{"dispatched", "failed 0 status"}},
		"the first is down":      {[2]says{{503, broken}, {200, fine}}, 0, 1, 200, work.Completed, []string{"dispatched", "failed 0 status", "retried status true", "succeeded 1"}},
		"both are down":          {[2]says{{503, broken}, {502, broken}}, 0, 1, 502, work.Failed, []string{"dispatched", "failed 0 status", "retried status true", "failed 1 status"}},
		"no retries":             {[2]says{{503, broken}, {200, fine}}, 0, 0, 503, work.Failed, []string{"dispatched", "failed 0 status"}},
		"the client is at fault": {[2]says{{400, bad}, {200, fine}}, 0, 1, 400, work.Refused, []string{"dispatched", "succeeded 0"}},
		"one lacks the endpoint": {[2]says{{404, lacks}, {200, fine}}, classify, 1, 200, work.Completed, []string{"dispatched", "retried no_endpoint true", "succeeded 1"}},
		"both lack the endpoint": {[2]says{{404, lacks}, {404, lacks}}, classify, 1, 404, work.Refused, []string{"dispatched", "retried no_endpoint true"}},
	} {
		t.Run(name, func(t *testing.T) {
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
			settings.Retries.Max = c.retries
			adapter := work.NewAdapter(core, clock)
			p := proxy.New(proxy.Options{
				Table: table, Backends: []config.Backend{{Transport: c.answers[0]}, {Transport: c.answers[1]}},
				Settings: func() *config.Config { return &settings }, Clock: clock, Log: slog.New(slog.DiscardHandler),
				Reply: &reply.Writer{
					Settings: func() *config.Config { return &settings }, Ending: func() bool { return false }, Failed: func(*gin.Context, string) {},
				},
				Health: reports, Metrics: reports, Memory: room{}, Prompts: adapter.Prompts, Events: adapter.Events,
				Keyed: func(int) bool { return false }, Context: func(int) int { return 0 },
				Unlisted: func(replica int) { reports.add("unlisted %d", replica) },
				Keep:     func(string, int, string) { t.Error("a response is kept") }, Trusts: func(string) bool { return false },
			})
			recorder := httptest.NewRecorder()
			g, _ := gin.CreateTestContext(recorder)
			g.Request = httptest.NewRequest(http.MethodPost, proxy.Endpoints[c.endpoint].Path, nil)
			request, err := wire.ParseRequest([]byte(`{"model":"auto","messages":[{"role":"user","content":"hi"}]}`))
			if err != nil {
				t.Fatal(err)
			}
			w := adapter.Arrive(fleet.Request{PromptTokens: 1})
			if err := w.Begin(work.Auto, nil); err != nil {
				t.Fatal(err)
			}
			outcome, _, cut := p.Serve(g, proxy.Call{
				Request: request, Endpoint: &proxy.Endpoints[c.endpoint], Work: w, Variant: work.Auto, Received: clock(), Until: time.Hour,
			})
			w.End(outcome, 0)
			if recorder.Code != c.status || outcome != c.outcome || cut || core.Ledger().InFlight() != 0 {
				t.Errorf("status %d, %v, broken %v; want %d, %v", recorder.Code, outcome, cut, c.status, c.outcome)
			}
			if !slices.Equal(reports.events, c.reported) {
				t.Errorf("reported %q, want %q", reports.events, c.reported)
			}
		})
	}
}

// room is memory without end.
type room struct{}

func (room) Keep(int64) bool { return true }
func (room) Drop(int64)      {}
