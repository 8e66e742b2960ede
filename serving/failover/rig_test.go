package failover_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"gearshift/router"
	control "gearshift/router/failover"
	"gearshift/router/fleet"
	"gearshift/router/placement"
	"gearshift/serving"
	"gearshift/serving/agents"
	"gearshift/serving/config"
	"gearshift/serving/failover"
	"gearshift/serving/heartbeat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	jsonType = "application/json"
	fine     = `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a b c d"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":4,"total_tokens":5}}`
	token    = "a-token-of-enough-characters"
)

// engine is a gearshift engine in memory: models that load, an agent that reports, and ways to die.
type engine struct {
	host string
	base *url.URL

	mu          sync.Mutex
	state       map[string]string // of models: READY, LOADING or UNAVAILABLE
	takes       map[string]time.Duration
	dead        bool // the process is gone
	frozen      bool // it stands still: nothing breaks
	shut        bool // nothing listens, though its agent reports
	thawed      chan struct{}
	incarnation uint64
	epoch       uint64 // the newest that an order came with
	orders      []string
	served      int
}

func newEngine(host string, n int, loaded ...string) *engine {
	base, _ := url.Parse("http://" + host + ":9001")
	e := &engine{host: host, base: base, state: map[string]string{}, takes: map[string]time.Duration{}, thawed: make(chan struct{}), incarnation: uint64(100 + n)}
	for _, m := range models {
		e.state[m], e.takes[m] = "UNAVAILABLE", 2*time.Second
	}
	e.takes["small"] = 200 * time.Millisecond
	for _, m := range loaded {
		e.state[m] = "READY"
	}
	return e
}

// kill ends the process; start starts another, with nothing loaded.
func (e *engine) kill() { e.mu.Lock(); e.dead = true; e.mu.Unlock() }
func (e *engine) start() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dead, e.incarnation = false, e.incarnation+1000
	for m := range e.state {
		e.state[m] = "UNAVAILABLE"
	}
}

func (e *engine) freeze() {
	e.mu.Lock()
	e.frozen, e.thawed = true, make(chan struct{})
	e.mu.Unlock()
}

func (e *engine) thaw() {
	e.mu.Lock()
	e.frozen = false
	close(e.thawed)
	e.mu.Unlock()
}

func (e *engine) loaded() (list []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for m, s := range e.state {
		if s == "READY" {
			list = append(list, m)
		}
	}
	slices.Sort(list)
	return list
}

func (e *engine) set(model, state string) { e.mu.Lock(); e.state[model] = state; e.mu.Unlock() }

// there waits as long as the engine stands still, and reports why it cannot be asked.
func (e *engine) there(ctx context.Context) error {
	for {
		e.mu.Lock()
		dead, frozen, thawed := e.dead || e.shut, e.frozen, e.thawed
		e.mu.Unlock()
		switch {
		case dead:
			return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		case !frozen:
			return nil
		}
		select {
		case <-thawed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Base implements [engines.Prober].
func (e *engine) Base() *url.URL { return e.base }

// Get implements [engines.Prober].
func (e *engine) Get(ctx context.Context, path string) (*http.Response, error) {
	return e.Ask(ctx, http.MethodGet, path, nil, nil)
}

// Ask implements [agents.Engine].
func (e *engine) Ask(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	if err := e.there(ctx); err != nil {
		return nil, err
	}
	r := httptest.NewRequestWithContext(ctx, method, path, bytes.NewReader(body))
	for name, values := range header {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	e.serve(w, r)
	if err := e.there(ctx); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return w.Result(), nil
}

// RoundTrip implements [http.RoundTripper]: an answer takes 20 ms.
func (e *engine) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := e.there(r.Context()); err != nil {
		return nil, err
	}
	text, _ := io.ReadAll(r.Body)
	var ask struct{ Model string }
	_ = json.Unmarshal(text, &ask)
	if !slices.Contains(e.loaded(), ask.Model) {
		return answer(http.StatusNotFound, `{"error":{"message":"the model is not loaded","param":"model"}}`), nil
	}
	select {
	case <-time.After(20 * time.Millisecond):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if err := e.there(r.Context()); err != nil {
		if r.Context().Err() != nil {
			return nil, err
		}
		return nil, io.ErrUnexpectedEOF
	}
	e.mu.Lock()
	e.served++
	e.mu.Unlock()
	return answer(http.StatusOK, fine), nil
}

func answer(status int, text string) *http.Response {
	return &http.Response{StatusCode: status, ContentLength: -1, Header: http.Header{"Content-Type": {jsonType}}, Body: io.NopCloser(strings.NewReader(text))}
}

func (e *engine) serve(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/v2/repository/")
	switch {
	case path == "index":
		var list []map[string]string
		e.mu.Lock()
		for m, s := range e.state {
			list = append(list, map[string]string{"name": m, "state": s, "reason": "unloaded"})
		}
		e.mu.Unlock()
		_ = json.NewEncoder(w).Encode(list)
	case strings.HasPrefix(path, "models/"):
		model, verb, _ := strings.Cut(strings.TrimPrefix(path, "models/"), "/")
		e.order(w, r, model, verb)
	case r.URL.Path == "/health":
	default:
		http.NotFound(w, r)
	}
}

func (e *engine) order(w http.ResponseWriter, r *http.Request, model, verb string) {
	epoch, _ := strconv.ParseUint(r.Header.Get(heartbeat.HeaderEpoch), 10, 64)
	e.mu.Lock()
	old := epoch < e.epoch
	e.epoch = max(e.epoch, epoch)
	e.orders = append(e.orders, verb+" "+model)
	takes := e.takes[model]
	double := verb == "load" && e.state[model] != "UNAVAILABLE"
	e.mu.Unlock()
	switch {
	case old:
		w.WriteHeader(http.StatusConflict)
		_, _ = fmt.Fprintf(w, `{"error":{"message":"the order is of epoch %d, and one of a newer epoch has been seen"}}`, epoch)
	case verb == "unload":
		e.set(model, "UNAVAILABLE")
	case double:
	default:
		e.set(model, "LOADING")
		select {
		case <-time.After(takes):
			e.set(model, "READY")
		case <-r.Context().Done():
			e.set(model, "UNAVAILABLE")
		}
	}
}

// agent reports to the router that to returns, until the context ends.
func (e *engine) agent(ctx context.Context, to func() http.Handler) {
	registered, sequence, incarnation, last := false, uint64(0), uint64(0), ""
	for range time.Tick(20 * time.Millisecond) {
		if ctx.Err() != nil {
			return
		}
		e.mu.Lock()
		silent, now := e.dead || e.frozen, e.incarnation
		e.mu.Unlock()
		if now != incarnation {
			incarnation, registered, sequence = now, false, 0
		}
		router := to()
		if silent || router == nil {
			continue
		}
		list := e.loaded()
		if !registered {
			w := post(router, heartbeat.AgentPath(e.host), heartbeat.Registration{Version: "test", Protocol: heartbeat.Protocol, Incarnation: now, URL: e.base.String(), Loaded: list})
			registered, last = w.Code == http.StatusOK, fmt.Sprint(list)
			continue
		}
		sequence++
		pulse := heartbeat.Pulse{Incarnation: now, Sequence: sequence}
		if text := fmt.Sprint(list); text != last {
			pulse.Loaded, last = &list, text
		}
		registered = post(router, heartbeat.HeartbeatPath(e.host), pulse).Code == http.StatusNoContent
	}
}

// post asks an admin handler.
func post(h http.Handler, path string, body any) *httptest.ResponseRecorder {
	text, _ := json.Marshal(body)
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(text))
	r.Host = "127.0.0.1:8081" // by which an admin listener on this machine is known
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// wants is a policy that takes the best variant that is available.
type wants struct{}

func (wants) Name() string { return "best@1" }
func (wants) Scratch() int { return 0 }
func (wants) Decide(v *fleet.View, _ *fleet.Request, _ []float32) int {
	for i := len(v.Table.Variants) - 1; i >= 0; i-- {
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

// The test fleet: each host is the primary of one application, whose large variant fits it with two
// small ones besides. The small one answers all applications.
var (
	hosts  = []string{"h1", "h2", "h3"}
	tasks  = []string{"one", "two", "three"}
	models = []string{"small", "large-one", "large-two", "large-three"}
)

// rig is a router with its engines, which outlive it.
type rig struct {
	t       *testing.T
	engines []*engine
	state   string // file
	change  func(*failover.Options, *serving.Options)

	mu     sync.Mutex
	server *serving.Server
	module *failover.Module
	logs   bytes.Buffer
}

func newRig(t *testing.T, change ...func(*failover.Options, *serving.Options)) *rig {
	g := &rig{t: t, change: func(*failover.Options, *serving.Options) {}}
	for _, f := range change {
		g.change = f
	}
	for i, h := range hosts {
		g.engines = append(g.engines, newEngine(h, i, models[i+1]))
	}
	g.start()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	for _, e := range g.engines {
		done.Go(func() { e.agent(ctx, g.admin) })
	}
	t.Cleanup(func() { g.end(); cancel(); done.Wait() })
	return g
}

// Write has the log be the rig's.
func (g *rig) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.logs.Write(b)
}

func table(t *testing.T) *fleet.Table {
	var list []fleet.Host
	var replicas []fleet.Replica
	var variants []fleet.Variant
	var weights []fleet.Model
	for v, name := range models {
		variants = append(variants, fleet.Variant{Name: name, Model: v})
		weights = append(weights, fleet.Model{Name: name, Memory: memoryOf(v)})
	}
	for h, name := range hosts {
		list = append(list, fleet.Host{Name: name, Memory: 1000})
		for v, model := range models {
			r := fleet.Replica{Name: model + "@" + name, Variant: v, Host: h, Limit: 8, Initial: fleet.Cold}
			if v == h+1 {
				r.Initial = fleet.Up
			}
			replicas = append(replicas, r)
		}
	}
	var answered []fleet.Task
	for i, name := range tasks {
		x := fleet.Task{Name: name, Deadline: time.Second, Weight: 1, Quality: []float64{0.9, 0, 0, 0}, Without: 0b1110 &^ (2 << i)}
		x.Quality[i+1] = 1
		answered = append(answered, x)
	}
	x, err := fleet.NewTable(answered, variants, list, replicas, weights...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func memoryOf(variant int) int64 {
	if variant == 0 {
		return 200
	}
	return 600
}

func system() *control.System {
	s := &control.System{Resources: []string{"memory"}, Shared: true}
	for _, name := range hosts {
		s.Servers = append(s.Servers, control.Server{Name: name, Capacity: []float64{1000}})
	}
	for i, name := range tasks {
		s.Applications = append(s.Applications, control.Application{Name: name, Primary: i, Full: 1, Rate: 1, Variants: []control.Variant{
			{Alternative: placement.Alternative{Name: "small", Quality: 0.9, Demand: []float64{200}}, Model: "small"},
			{Alternative: placement.Alternative{Name: models[i+1], Quality: 1, Demand: []float64{600}}, Model: models[i+1]},
		}})
	}
	return s
}

// start starts a router.
func (g *rig) start() {
	g.t.Helper()
	x := table(g.t)
	core, err := router.New(router.Config{Ledger: fleet.NewLedger(x), Fallback: wants{}, Balancer: emptiest{}})
	if err != nil {
		g.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(g, nil))
	o := failover.Options{System: system(), Table: x, Log: log, StateFile: g.state, Controller: control.DefaultOptions()}
	o.Controller.Headroom, o.Controller.Alpha = 0.4, 0
	c := config.Default()
	c.Metrics, c.Gauges.Interval, c.Health.ProbeModels = config.MetricsOpen, 0, false
	s := serving.Options{Config: c, Router: core, AdminToken: token, Log: log}
	own, err := agents.DialectNamed("gearshift")
	if err != nil {
		g.t.Fatal(err)
	}
	for _, e := range g.engines {
		for _, m := range models {
			s.Backends = append(s.Backends, serving.Backend{Transport: e, Lifecycle: own, Model: m})
		}
	}
	g.change(&o, &s)
	module, err := failover.New(o)
	if err != nil {
		g.t.Fatal(err)
	}
	s.Modules = append(s.Modules, module)
	server, err := serving.New(s)
	if err != nil {
		g.t.Fatal(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.server, g.module = server, module
}

// end ends the router, if one runs.
func (g *rig) end() {
	g.mu.Lock()
	server, module := g.server, g.module
	g.server, g.module = nil, nil
	g.mu.Unlock()
	if server != nil {
		server.Drain()
		server.Close()
		if err := module.Close(); err != nil {
			g.t.Error(err)
		}
	}
}

func (g *rig) admin() http.Handler {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.server == nil {
		return nil
	}
	return g.server.AdminHandler()
}

// ask sends a request for the task, and returns its status and the replica that answered.
func (g *rig) ask(task string) (int, string) {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"model":"auto","messages":[{"role":"user","content":"hi"}],"metadata":{"task":"`+task+`"}}`))
	r.Header.Set("Content-Type", jsonType)
	w := httptest.NewRecorder()
	g.server.Handler().ServeHTTP(w, r)
	return w.Code, w.Header().Get("X-Gearshift-Replica")
}

// look is the situation now, once all that runs waits.
func (g *rig) look() *failover.Situation {
	synctest.Wait()
	return g.module.Situation()
}

// actives are what answers the applications, in their order.
func actives(s *failover.Situation) (list []string) {
	for _, a := range s.Applications {
		list = append(list, a.Active)
	}
	return list
}

// after waits, and checks what answers the applications then.
func (g *rig) after(d time.Duration, want ...string) *failover.Situation {
	g.t.Helper()
	time.Sleep(d)
	s := g.look()
	if got := actives(s); !slices.Equal(got, want) {
		g.t.Errorf("applications are answered by %q, want %q", got, want)
	}
	return s
}
