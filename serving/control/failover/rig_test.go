package failover_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
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
	"gearshift/serving/config"
	"gearshift/serving/control/failover"
	"gearshift/serving/control/states"
	"gearshift/serving/engines/agents"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	memory  int64  // of a host
	seconds int    // 1: versions change, in replicas that take turns
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
	g.open()
	return g
}

// open starts the rig's engines and its router.
func (g *rig) open() {
	t := g.t
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
}

// Write has the log be the rig's.
func (g *rig) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.logs.Write(b)
}

// table is the fleet, whose replicas take turns with others if seconds is 1.
func table(t *testing.T, memory int64, seconds int) *fleet.Table {
	var list []fleet.Host
	var replicas []fleet.Replica
	var variants []fleet.Variant
	var weights []fleet.Model
	for v, name := range models {
		variants = append(variants, fleet.Variant{Name: name, Model: v})
		weights = append(weights, fleet.Model{Name: name, Memory: memoryOf(v)})
	}
	for h, name := range hosts {
		list = append(list, fleet.Host{Name: name, Memory: memory})
		for v, model := range models {
			r := fleet.Replica{Name: model + "@" + name, Variant: v, Host: h, Limit: 8, Initial: fleet.Cold}
			if v == h+1 {
				r.Initial = fleet.Up
			}
			replicas = append(replicas, r)
		}
	}
	for _, r := range replicas[:len(replicas)*seconds] {
		r.Name, r.Initial = r.Name+"#2", fleet.Cold
		replicas = append(replicas, r)
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

// confirm sets how long a silent host is suspected before it is lost.
const confirm = 30 * time.Millisecond

// dial connects to an engine, which answers one request.
func (g *rig) dial(ctx context.Context, _, address string) (net.Conn, error) {
	i := slices.IndexFunc(g.engines, func(e *engine) bool { return e.base.Host == address })
	e := g.engines[i]
	if e.gone() {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	near, far := net.Pipe()
	go func() {
		defer func() { _ = far.Close() }()
		if _, err := http.ReadRequest(bufio.NewReader(far)); err == nil && e.there(ctx) == nil {
			_, _ = io.WriteString(far, "HTTP/1.0 200 OK\r\n\r\n")
		}
	}()
	return near, nil
}

func memoryOf(variant int) int64 {
	if variant == 0 {
		return 200
	}
	return 600
}

func problem(memory float64) *control.Problem {
	s := &control.Problem{Resources: []string{"memory"}, Shared: true}
	for _, name := range hosts {
		s.Hosts, s.Capacity = append(s.Hosts, fleet.Host{Name: name}), append(s.Capacity, []float64{memory})
	}
	for i, name := range tasks {
		s.Applications = append(s.Applications, control.Application{Name: name, Primary: i, Full: 1, Rate: 1, Variants: []control.Variant{
			{Alternative: placement.Alternative{Name: "small", Model: "small", Quality: 0.9, Demand: []float64{200}}},
			{Alternative: placement.Alternative{Name: models[i+1], Model: models[i+1], Quality: 1, Demand: []float64{600}}},
		}})
	}
	return s
}

// start starts a router.
func (g *rig) start() {
	g.t.Helper()
	g.memory = cmp.Or(g.memory, 1000)
	x := table(g.t, g.memory, g.seconds)
	core, err := router.New(router.Config{Ledger: fleet.NewLedger(x), Fallback: wants{}, Balancer: emptiest{}})
	if err != nil {
		g.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(g, nil))
	o := failover.Options{Problem: problem(float64(g.memory)), Table: x, Log: log, Token: fleetToken, Controller: control.DefaultOptions()}
	if g.state != "" {
		o.States = states.At(g.state)
	}
	o.Controller.Headroom, o.Controller.Alpha, o.Controller.Confirm = 0.4, 0, confirm
	o.Dial = g.dial
	c := config.Default()
	c.Metrics, c.Gauges.Interval, c.Health.ProbeModels = config.MetricsOpen, 0, false
	s := serving.Options{Config: c, Router: core, AdminToken: token, FleetToken: fleetToken, Log: log}
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
