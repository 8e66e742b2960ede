package serving_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gearshift/internal/memnet"
	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// chooses is a policy that always wants one variant.
type chooses int

func (chooses) Name() string { return "wants@3" }
func (chooses) Scratch() int { return 0 }
func (p chooses) Decide(v *fleet.View, _ *fleet.Request, _ []float32) int {
	if v.VariantAvailable(int(p)) {
		return int(p)
	}
	return -1
}

// fallback takes the first variant there is.
type fallback struct{}

func (fallback) Name() string { return "first" }
func (fallback) Scratch() int { return 0 }
func (fallback) Decide(v *fleet.View, _ *fleet.Request, _ []float32) int {
	for i := range v.Table.Variants {
		if v.VariantAvailable(i) {
			return i
		}
	}
	return -1
}

// emptiest is a balancer without chance.
type emptiest struct{}

func (emptiest) Name() string { return "emptiest" }
func (emptiest) Pick(v *fleet.View, _ *fleet.Request, variant int, _ uint64) int {
	for _, i := range v.Table.ReplicasOf(variant) {
		if v.Available(i) && int(v.InFlight[i]) == v.Shortest(variant) {
			return i
		}
	}
	return -1
}

// The variants and replicas of the test fleet.
const (
	small, large               = 0, 1
	smallOnA, smallOnB, largeA = 0, 1, 2
)

func testTable(t *testing.T) *fleet.Table {
	t.Helper()
	table, err := fleet.NewTable(
		[]fleet.Task{
			{Name: "chat", Deadline: 40 * time.Millisecond, Weight: 1, Quality: []float64{0.5, 1}},
			{Name: "copy", Deadline: 80 * time.Millisecond, Decay: fleet.PaperSoft(), Weight: 2, Quality: []float64{0.75, 1}},
		},
		[]fleet.Variant{{Name: "small"}, {Name: "large"}},
		[]fleet.Host{{Name: "a"}, {Name: "b"}},
		[]fleet.Replica{
			{Name: "small@a", Variant: small, Host: 0, Limit: 2},
			{Name: "small@b", Variant: small, Host: 1, Limit: 2},
			{Name: "large@a", Variant: large, Host: 0, Limit: 2},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func testRouter(t *testing.T, policy router.Policy) *router.Core {
	t.Helper()
	core, err := router.New(router.Config{Ledger: fleet.NewLedger(testTable(t)), Fallback: fallback{}, Balancer: emptiest{}})
	if err != nil {
		t.Fatal(err)
	}
	if policy != nil {
		if err := core.SetPolicy(policy); err != nil {
			t.Fatal(err)
		}
	}
	return core
}

// transport is a backend made of a function.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// says answers with a status, a content type and a body.
func says(status int, kind, body string) transport {
	return func(*http.Request) (*http.Response, error) {
		return reply(status, kind, io.NopCloser(strings.NewReader(body))), nil
	}
}

func reply(status int, kind string, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), ContentLength: -1,
		Header: http.Header{"Content-Type": {kind}}, Body: body,
	}
}

const (
	jsonType  = "application/json"
	eventType = "text/event-stream"
	// fine is an answer of four tokens.
	fine = `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a b c d"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":4,"total_tokens":5}}`
	ask  = `{"model":"auto","messages":[{"role":"user","content":"hi"}]}`
	chat = "/v1/chat/completions"
)

// rig is a server under test, all of whose replicas have one backend unless
// the test changes that.
type rig struct {
	*serving.Server
	core *router.Core
	logs *logBuffer
	// returned gets a value when a handler returns or panics.
	returned chan any
}

func newRig(t *testing.T, rt http.RoundTripper, change ...func(*serving.Options)) *rig {
	t.Helper()
	g := &rig{core: testRouter(t, chooses(small)), logs: &logBuffer{}, returned: make(chan any, 16)}
	o := serving.Options{
		Config: openConfig(), Router: g.core, Log: g.logs.logger(),
		Backends: []serving.Backend{{Transport: rt}, {Transport: rt}, {Transport: rt}},
	}
	for _, f := range change {
		f(&o)
	}
	var err error
	if g.Server, err = serving.New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// openConfig is the default configuration, in which leases may hold the whole fleet, whose
// few places leave no shares of them, metrics are for anyone, with keys or without, and silent
// streams get no comments.
func openConfig() config.Config {
	c := config.Default()
	c.Metrics = config.MetricsOpen
	c.KeepAlive = 0
	c.Leases.Share, c.Leases.KeyShare, c.Leases.AnonymousShare = 1, 1, 1
	return c
}

// ServeHTTP is the server's handler, which tells when it has returned.
func (g *rig) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		value := recover()
		g.returned <- value
		if value != nil {
			panic(value)
		}
	}()
	g.Handler().ServeHTTP(w, r)
}

// do calls the handler without a network.
func (g *rig) do(method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", jsonType)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	g.Handler().ServeHTTP(w, r)
	return w
}

// counted are the samples of a metric that are not zero.
func (g *rig) counted(name string) (list []string) {
	for line := range strings.Lines(g.do("GET", "/metrics", "").Body.String()) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, name+"{") && !strings.HasSuffix(line, " 0") {
			list = append(list, line)
		}
	}
	return list
}

// settled checks that nothing is in flight and one request ended as it should.
func (g *rig) settled(t *testing.T, outcome string) {
	t.Helper()
	if n := g.core.Ledger().InFlight(); n != 0 {
		t.Errorf("%d requests still in flight", n)
	}
	found := g.counted("gearshift_requests_total")
	if len(found) != 1 || !strings.Contains(found[0], `outcome="`+outcome+`"`) || !strings.HasSuffix(found[0], " 1") {
		t.Errorf("ended requests %q, want one that %s", found, outcome)
	}
}

// wireError is an OpenAI-shaped error.
type wireError struct {
	Error struct {
		Message     string
		Type        string
		Param, Code *string
	}
}

func readError(t *testing.T, body []byte) (message, kind, param, code string) {
	t.Helper()
	var e wireError
	if err := json.Unmarshal(body, &e); err != nil || e.Error.Message == "" || e.Error.Type == "" {
		t.Fatalf("not an OpenAI-shaped error: %s", body)
	}
	if e.Error.Param != nil {
		param = *e.Error.Param
	}
	if e.Error.Code != nil {
		code = *e.Error.Code
	}
	return e.Error.Message, e.Error.Type, param, code
}

// pipes is a listener in memory, so that synctest's clock runs deadlines.
type pipes struct{ *memnet.Listener }

func newPipes() *pipes { return &pipes{memnet.Listen()} }

func (p *pipes) dial(ctx context.Context) (net.Conn, error) { return p.Dial(ctx) }

func (p *pipes) client() *http.Client { return p.Client() }
