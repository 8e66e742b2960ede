package failover_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	simulated "gearshift/env/engine"
	"gearshift/internal/memnet"
	"gearshift/router/fleet"
	"gearshift/router/profile"
	"gearshift/serving"
	"gearshift/serving/backend"
	"gearshift/serving/control/failover"
	"gearshift/serving/engineserver"
)

// process is a gearshift engine with its own agent, on a network in memory.
type process struct {
	host    string
	base    *url.URL
	admin   *memnet.Listener // the router's
	client  *http.Transport
	runs    uint64
	initial string // model that it is started with
	fence   *engineserver.Fence

	mu     sync.Mutex // protects what follows
	listen *memnet.Listener
	conns  []net.Conn
	dead   bool
	done   sync.WaitGroup
	stop   context.CancelFunc
}

var errDead = &net.OpError{Op: "dial", Net: "memory", Err: errors.New("connection refused")}

// dial connects to a listener, unless the process is gone.
func (p *process) dial(ctx context.Context, to func() *memnet.Listener) (net.Conn, error) {
	p.mu.Lock()
	dead, l := p.dead, to()
	p.mu.Unlock()
	if dead {
		return nil, errDead
	}
	c, err := l.Dial(ctx)
	if err == nil {
		p.mu.Lock()
		p.conns = append(p.conns, c)
		p.mu.Unlock()
	}
	return c, err
}

// start starts the process, which has one model, or none.
func (p *process) start(t *testing.T, model string) {
	t.Helper()
	c := engineserver.Config{Loaders: 10, Memory: 1000, Fence: p.fence, Engines: backend.SimulatedConfig{OutputTokens: func(*rand.Rand) int { return 2 }}}
	var variants []fleet.Variant
	var replicas []fleet.Replica
	var weights []fleet.Model
	for v, name := range models {
		variants = append(variants, fleet.Variant{Name: name, Model: v})
		weights = append(weights, fleet.Model{Name: name, Memory: memoryOf(v), Load: time.Duration(memoryOf(v)) * time.Millisecond})
		state := fleet.Cold
		if name == model {
			state = fleet.Up
		}
		replicas = append(replicas, fleet.Replica{Name: name + "@" + p.host, Variant: v, KVTokens: 4096, Initial: state})
		e, err := simulated.New(simulated.Config{Scheduler: simulated.PrefillFirst, MaxBatchTokens: 64, MaxSequences: 8, BlockTokens: 4}, &profile.Profile{Overhead: 10}, 4096)
		if err != nil {
			t.Fatal(err)
		}
		c.Engines.Engines = append(c.Engines.Engines, e)
	}
	var err error
	c.Engines.Table, err = fleet.NewTable([]fleet.Task{{Name: "task", Deadline: time.Second, Weight: 1, Quality: make([]float64, len(models))}}, variants, []fleet.Host{{Name: p.host}}, replicas, weights...)
	if err != nil {
		t.Fatal(err)
	}
	server, err := engineserver.New(c)
	if err != nil {
		t.Fatal(err)
	}
	p.runs++
	p.mu.Lock()
	p.listen, p.dead, p.conns = memnet.Listen(), false, nil
	listen := p.listen
	p.mu.Unlock()
	reporter, err := engineserver.NewAgent(engineserver.AgentConfig{
		Router: "http://127.0.0.1:8081", Token: fleetToken, Host: p.host, Version: "test", Incarnation: p.runs, URL: p.base.String(),
		Memory: c.Memory, Loaded: server.Loaded, Term: c.Fence,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return p.dial(ctx, func() *memnet.Listener { return p.admin })
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.done.Go(func() { _ = reporter.Run(ctx) })
	p.done.Go(func() { _ = server.Serve(ctx, listen) })
}

// kill ends it as SIGKILL does: its connections break, and nothing is said.
func (p *process) kill() {
	p.mu.Lock()
	p.dead = true
	for _, c := range p.conns {
		_ = c.Close()
	}
	_ = p.listen.Close()
	p.mu.Unlock()
	p.stop()
	p.done.Wait()
}

// Base implements [engines.Server].
func (p *process) Base() *url.URL { return p.base }

// Get implements [engines.Server].
func (p *process) Get(ctx context.Context, path string) (*http.Response, error) {
	return p.Ask(ctx, http.MethodGet, path, nil, nil)
}

// Ask implements [agents.Engine].
func (p *process) Ask(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, p.base.String()+path, strings.NewReader(string(body)))
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	return p.client.RoundTrip(r)
}

// RoundTrip implements [http.RoundTripper].
func (p *process) RoundTrip(r *http.Request) (*http.Response, error) {
	to := *r.URL
	to.Scheme, to.Host = p.base.Scheme, p.base.Host
	out := r.WithContext(r.Context())
	out.URL = &to
	return p.client.RoundTrip(out)
}

// withProcesses runs the test in a bubble, with a router before real engines with their agents, whose
// routers have given them the term before.
func withProcesses(t *testing.T, term uint64, test func(t *testing.T, g *rig, list []*process)) {
	synctest.Test(t, func(t *testing.T) {
		admin := memnet.Listen()
		var list []*process
		for i, h := range hosts {
			base, _ := url.Parse("http://" + h + ":9001")
			p := &process{host: h, base: base, admin: admin, initial: models[i+1], fence: &engineserver.Fence{Secret: fleetToken}}
			if err := p.fence.Begin(term); err != nil {
				t.Fatal(err)
			}
			p.client = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return p.dial(ctx, func() *memnet.Listener { return p.listen })
			}}
			p.start(t, p.initial)
			list = append(list, p)
		}
		g := &rig{t: t, change: func(o *failover.Options, s *serving.Options) {
			o.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errDead }
			for i := range s.Backends {
				s.Backends[i].Transport = list[i/len(models)]
			}
		}}
		for i, h := range hosts {
			g.engines = append(g.engines, newEngine(h, i)) // whose places the processes take
		}
		g.start()
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if h := g.admin(); h != nil {
				h.ServeHTTP(w, r)
			}
		})}
		var serves sync.WaitGroup
		serves.Go(func() { _ = server.Serve(admin) })
		defer func() {
			g.end()
			for _, p := range list {
				p.kill()
			}
			_ = server.Close()
			serves.Wait()
		}()
		test(t, g, list)
	})
}

// The router and real engines with their agents: backups are loaded, an engine that is killed under
// load loses nothing and is replaced within heartbeats, and comes back with nothing loaded, to be
// its application's primary again. An engine that ends in order says so.
func TestRealAgents(t *testing.T) {
	withProcesses(t, 0, func(t *testing.T, g *rig, list []*process) {
		s := g.after(5*time.Second, homes...)
		if s.Unprotected != 0 || slices.ContainsFunc(s.Hosts, func(x failover.HostStatus) bool { return x.Agent == nil }) {
			t.Errorf("%+v, %+v", s.Applications, s.Hosts)
		}
		stop, lost := make(chan struct{}), make(chan int, 1000)
		var clients sync.WaitGroup
		for _, task := range tasks {
			clients.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(11 * time.Millisecond):
					}
					if status, _ := g.ask(task); status != http.StatusOK {
						lost <- status
					}
				}
			})
		}
		time.Sleep(time.Second)
		list[1].kill()
		time.Sleep(60 * time.Millisecond)
		if s := g.look(); s.Hosts[1].State != "lost" || s.Applications[1].Active == homes[1] || s.Applications[1].Active == "" {
			t.Errorf("60 ms after the kill %+v, h2 %s", s.Applications[1], s.Hosts[1].State)
		}
		time.Sleep(2 * time.Second)
		list[1].start(t, "")
		s = g.after(8*time.Second, homes...)
		if s.Unprotected != 0 {
			t.Errorf("unprotected: %+v", s.Applications)
		}
		list[2].stop() // as SIGTERM
		time.Sleep(20 * time.Millisecond)
		if s := g.look(); s.Hosts[2].State != "lost" || !slices.ContainsFunc(s.Last.Steps, func(n failover.Notice) bool { return n.Reason == "its engine has ended in order" }) {
			t.Errorf("h3 is %s, steps %+v; want that it has taken leave", s.Hosts[2].State, s.Last.Steps)
		}
		time.Sleep(2 * time.Second)
		close(stop)
		clients.Wait()
		close(lost)
		for status := range lost {
			t.Errorf("a request was answered by %d", status)
		}
	})
}

// An engine that has followed a router of a newer term, as before a state file was lost, follows this
// one all the same: its agent registers with what it has seen. One that another router has taken since
// refuses an order; the cause is in the status, and the engine follows this router again.
func TestEnginesOfAnotherRouter(t *testing.T) {
	const seen = 2_000_000_000
	withProcesses(t, seen, func(t *testing.T, g *rig, list []*process) {
		if s := g.after(5*time.Second, homes...); s.Unprotected != 0 || s.Term >= seen || list[0].fence.Term() != seen+1 {
			t.Errorf("term %d, engines follow %d, applications %+v", s.Term, list[0].fence.Term(), s.Applications)
		}
		p := list[2]
		p.kill()
		time.Sleep(time.Second)
		p.start(t, "")
		time.Sleep(time.Second) // it is not used yet
		if err := p.fence.Begin(seen + 100); err != nil {
			t.Fatal(err)
		}
		server := ""
		for range 200 {
			time.Sleep(20 * time.Millisecond)
			server += g.look().Hosts[2].Trouble
		}
		const cause = "term 2000000100 has begun: another router is in charge"
		if !strings.Contains(server, cause) {
			t.Errorf("h3's trouble is %q, want %q in it", server, cause)
		}
		if s := g.after(5*time.Second, homes...); s.Unprotected != 0 || s.Hosts[2].Trouble != "" {
			t.Errorf("servers %+v, applications %+v", s.Hosts, s.Applications)
		}
	})
}
