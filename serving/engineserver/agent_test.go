package engineserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/internal/etcd/etcdtest"
	"gearshift/internal/memnet"
	"gearshift/serving/engines/agents"
	"gearshift/serving/openai/wire"
)

// router is one that agents report to, on a network in memory.
type router struct {
	accepted agents.Accepted
	// answer, if set, answers instead; false leaves the request to the router.
	answer func(w http.ResponseWriter, r *http.Request) bool
	// attends keeps connections of presence open.
	attends bool

	mu            sync.Mutex // protects what follows
	network       *memnet.Listener
	server        *http.Server
	dials         int
	registrations []agents.Registration
	beats         []agents.Pulse
	at            []time.Duration // of the beats
	left          []string
	tokens        map[string]bool
	began         time.Time
	present, gone []string // queries of connections of presence: all, and those that have ended
}

// start makes the router answer.
func (r *router) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.network, r.server = memnet.Listen(), &http.Server{Handler: r}
	go func(s *http.Server, l net.Listener) { _ = s.Serve(l) }(r.server, r.network)
}

// stop breaks its connections, and refuses others.
func (r *router) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.server.Close()
}

func (r *router) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	r.mu.Lock()
	r.dials++
	network := r.network
	r.mu.Unlock()
	return network.Dial(ctx)
}

// ServeHTTP implements [http.Handler].
func (r *router) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if r.attends && request.URL.Path == "/admin/agents/h1/presence" {
		r.attend(w, request)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens[request.Header.Get("Authorization")] = true
	if r.answer != nil && r.answer(w, request) {
		return
	}
	switch request.Method + " " + request.URL.Path {
	case "POST /admin/agents/h1":
		var one agents.Registration
		if err := json.NewDecoder(request.Body).Decode(&one); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.registrations = append(r.registrations, one)
		_ = json.NewEncoder(w).Encode(r.accepted)
	case "POST /admin/agents/h1/heartbeat":
		var one agents.Pulse
		if err := json.NewDecoder(request.Body).Decode(&one); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.beats, r.at = append(r.beats, one), append(r.at, time.Since(r.began))
		w.WriteHeader(http.StatusNoContent)
	case "DELETE /admin/agents/h1":
		text, _ := io.ReadAll(request.Body)
		r.left = append(r.left, string(text))
		w.WriteHeader(http.StatusNoContent)
	default:
		http.NotFound(w, request)
	}
}

func (r *router) attend(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	r.present = append(r.present, request.URL.RawQuery)
	r.mu.Unlock()
	_ = http.NewResponseController(w).Flush()
	<-request.Context().Done()
	r.mu.Lock()
	r.gone = append(r.gone, request.URL.RawQuery)
	r.mu.Unlock()
}

// trial is an agent of host h1 and its router.
type trial struct {
	*router
	t      *testing.T
	models []string // that are loaded
	log    bytes.Buffer
	term   term
}

// term is the newest that an engine has seen.
type term uint64

func (x *term) Term() uint64 { return uint64(*x) }

func (x *term) Begin(next uint64) error {
	if next < uint64(*x) {
		return errors.New("the router's term is older")
	}
	*x = term(next)
	return nil
}

// run has the agent report for so long, while the test does something.
func run(t *testing.T, prepare func(*trial), while func(*trial)) (x *trial, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x = &trial{t: t, models: []string{"tiny"}, router: &router{
			accepted: agents.Accepted{Term: 3, HeartbeatMS: 20, Misses: 2}, tokens: map[string]bool{}, began: time.Now(),
		}}
		x.start()
		if prepare != nil {
			prepare(x)
		}
		a, fault := NewAgent(AgentConfig{
			Router: "http://router", Token: "secret", Host: "h1", Version: "1.2.3", Incarnation: 7, URL: "http://10.0.0.7:9001", Memory: 4 << 30,
			Loaded: func() []string { x.mu.Lock(); defer x.mu.Unlock(); return slices.Clone(x.models) },
			Term:   &x.term, Dial: x.dial, Log: slog.New(slog.NewTextHandler(&x.log, nil)),
		})
		if fault != nil {
			t.Fatal(fault)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		if while != nil {
			while(x)
			stop()
		}
		err = <-ended
		stop()
		x.stop()
	})
	return x, err
}

// An agent registers, sends a heartbeat each interval over one connection, with the models only
// when they change, and takes leave at the end.
func TestHeartbeats(t *testing.T) {
	x, err := run(t, nil, func(x *trial) {
		time.Sleep(105 * time.Millisecond)
		x.mu.Lock()
		x.models = []string{}
		x.mu.Unlock()
		time.Sleep(40 * time.Millisecond)
		synctest.Wait()
		x.mu.Lock()
		defer x.mu.Unlock()
		want := agents.Registration{Version: "1.2.3", Protocol: agents.Protocol, Incarnation: 7, URL: "http://10.0.0.7:9001", Memory: 4 << 30, Loaded: []string{"tiny"}}
		if len(x.registrations) != 1 || !slices.Equal(x.registrations[0].Loaded, want.Loaded) || x.registrations[0].Incarnation != 7 {
			t.Errorf("registered %+v, want %+v", x.registrations, want)
		} else if err := x.registrations[0].Validate(); err != nil {
			t.Error(err)
		}
		for i, b := range x.beats {
			if x.at[i] != time.Duration(i+1)*20*time.Millisecond || b.Sequence != uint64(i+1) || b.Incarnation != 7 {
				t.Errorf("heartbeat %d: %+v at %v", i+1, b, x.at[i])
			}
			if changed := b.Loaded != nil; changed != (i == 5) {
				t.Errorf("heartbeat %d has models: %v", i+1, changed)
			}
		}
		if len(x.beats) != 7 || x.dials != 1 || len(x.tokens) != 1 || !x.tokens["Bearer secret"] {
			t.Errorf("%d heartbeats over %d connections with %v; want 7 over one", len(x.beats), x.dials, x.tokens)
		}
	})
	if err != nil || len(x.left) != 1 || x.left[0] != `{"incarnation":7,"sequence":8}` {
		t.Errorf("left with %q, error %v", x.left, err)
	}
}

// An agent registers again with a router that has restarted, or that has lost it, and says once
// that the router is away.
func TestRegistersAgain(t *testing.T) {
	_, err := run(t, nil, func(x *trial) {
		time.Sleep(50 * time.Millisecond)
		x.stop()
		time.Sleep(3 * time.Second)
		x.mu.Lock()
		x.accepted.Term = 4
		known := false
		x.answer = func(w http.ResponseWriter, r *http.Request) bool {
			if known = known || r.URL.Path == "/admin/agents/h1"; !known {
				refuse(w, http.StatusConflict, "host h1 has to register")
			}
			return !known
		}
		x.mu.Unlock()
		x.start()
		time.Sleep(time.Second)
		synctest.Wait()
		x.mu.Lock()
		defer x.mu.Unlock()
		if len(x.registrations) != 2 || len(x.beats) < 40 {
			t.Errorf("%d registrations and %d heartbeats", len(x.registrations), len(x.beats))
		}
		if n := strings.Count(x.log.String(), "does not answer"); n > 2 { // the connection breaks, then others are refused
			t.Errorf("said %d times that the router is away: %s", n, x.log.String())
		}
		if !strings.Contains(x.log.String(), "host h1 has to register") || !strings.Contains(x.log.String(), "term=4") {
			t.Errorf("log: %s", x.log.String())
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// A router that hangs, as one behind a dropped link does, is asked over another connection, and
// heartbeats go on as soon as it answers again.
func TestARouterThatHangs(t *testing.T) {
	_, err := run(t, nil, func(x *trial) {
		time.Sleep(50 * time.Millisecond)
		x.mu.Lock()
		release := make(chan struct{})
		x.answer = func(_ http.ResponseWriter, r *http.Request) bool {
			x.mu.Unlock()
			defer x.mu.Lock()
			select {
			case <-release:
			case <-r.Context().Done():
			}
			return true
		}
		before := len(x.beats)
		x.mu.Unlock()
		time.Sleep(2 * time.Second)
		x.mu.Lock()
		x.answer = nil
		x.mu.Unlock()
		close(release)
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		x.mu.Lock()
		defer x.mu.Unlock()
		if got := len(x.beats) - before; got < 4 || len(x.registrations) != 1 {
			t.Errorf("%d heartbeats after the router answers again, %d registrations", got, len(x.registrations))
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// A router that refuses the engine for good ends it with one line.
func TestRefusalsOfTheRouter(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		said   string
		want   string
	}{
		"protocol": {http.StatusBadRequest, `protocol: the agent, of version "1.2.3", speaks 1 and this router 2`, "the router refuses: protocol: the agent"},
		"token":    {http.StatusUnauthorized, "the admin token is missing or wrong", "the router refuses: the admin token"},
		"host":     {http.StatusNotFound, `there is no host "h1"; there are a, b`, `the router refuses: there is no host "h1"`},
		"no words": {http.StatusNotFound, "", "the router answers 404 Not Found"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := run(t, func(x *trial) {
				x.answer = func(w http.ResponseWriter, _ *http.Request) bool { refuse(w, c.status, c.said); return true }
			}, nil)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
}

// A router that is not there yet is waited for, and a fault of its own is none of the engine's.
func TestWaitsForTheRouter(t *testing.T) {
	_, err := run(t, func(x *trial) {
		tries := 0
		x.answer = func(w http.ResponseWriter, _ *http.Request) bool {
			tries++
			switch {
			case tries < 3:
				refuse(w, http.StatusServiceUnavailable, "the router starts")
			case tries < 4:
				refuse(w, http.StatusConflict, "an agent at http://10.0.0.7:9000 reports for it")
			}
			return tries < 4
		}
	}, func(x *trial) {
		time.Sleep(firstPause * (1 + 2 + 4))
		synctest.Wait()
		x.mu.Lock()
		defer x.mu.Unlock()
		if len(x.registrations) != 1 || strings.Count(x.log.String(), "the router starts") != 1 {
			t.Errorf("%d registrations; log: %s", len(x.registrations), x.log.String())
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// A router of an older term than one that the engine has followed is refused.
func TestAnOlderTerm(t *testing.T) {
	_, err := run(t, func(x *trial) {
		x.term = 9
	}, func(x *trial) {
		time.Sleep(time.Second)
		synctest.Wait()
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.registrations[0].Term != 9 {
			t.Errorf("registered with %+v, want the term 9", x.registrations[0])
		}
		if len(x.beats) != 0 || strings.Count(x.log.String(), "the router's term is older") != 1 {
			t.Errorf("%d heartbeats; log: %s", len(x.beats), x.log.String())
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestBadRouters(t *testing.T) {
	for _, text := range []string{"", "127.0.0.1:8081", "ftp://router", "http://"} {
		if _, err := NewAgent(AgentConfig{Router: text}); err == nil || !strings.Contains(err.Error(), "want one such as http://") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// refuse answers as the router's admin listener does.
func refuse(w http.ResponseWriter, status int, said string) {
	w.WriteHeader(status)
	if said != "" {
		_, _ = w.Write(wire.Error{Message: said}.JSON())
	}
}

// TestPresence: an agent keeps one request open as long as it reports, and another one after it has
// registered again.
func TestPresence(t *testing.T) {
	x, err := run(t, func(x *trial) { x.attends = true }, func(x *trial) {
		time.Sleep(time.Minute)
		x.mu.Lock()
		if !slices.Equal(x.present, []string{"incarnation=7"}) || len(x.gone) > 0 {
			t.Errorf("open %q, ended %q", x.present, x.gone)
		}
		x.mu.Unlock()
		x.stop()
		time.Sleep(time.Second)
		x.start()
		time.Sleep(3 * time.Second)
		x.mu.Lock()
		defer x.mu.Unlock()
		if len(x.present) != 2 || len(x.gone) != 1 {
			t.Errorf("with a router that has restarted: open %q, ended %q", x.present, x.gone)
		}
	})
	if err != nil || len(x.present) != 2 || len(x.gone) != 2 {
		t.Errorf("at the end: open %q, ended %q, error %v", x.present, x.gone, err)
	}
}

// TestSeveralRouters: the agent reports to the acting router, and to the next one when that is gone.
func TestSeveralRouters(t *testing.T) {
	var acts atomic.Int32 // the router that does
	var reports [2]atomic.Int32
	var routers []*httptest.Server
	for i := range reports {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case int(acts.Load()) != i:
				w.WriteHeader(http.StatusConflict)
			case strings.HasSuffix(r.URL.Path, "/heartbeat"):
				reports[i].Add(1)
				w.WriteHeader(http.StatusNoContent)
			case strings.HasSuffix(r.URL.Path, "/presence"):
				w.WriteHeader(http.StatusNotFound)
			default:
				_ = json.NewEncoder(w).Encode(agents.Accepted{Term: uint64(1 + i), HeartbeatMS: 10, Misses: 2})
			}
		}))
		defer s.Close()
		routers = append(routers, s)
	}
	acts.Store(1)
	a, err := NewAgent(AgentConfig{Router: routers[0].URL + ", " + routers[1].URL, Host: "h1", Incarnation: 1, Loaded: func() []string { return []string{} }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	reported := func(to int) {
		t.Helper()
		before := reports[to].Load()
		etcdtest.Eventually(t, "heartbeats come", func() bool { return reports[to].Load() > before+3 })
	}
	reported(1)
	acts.Store(0) // and the second refuses
	reported(0)
	acts.Store(1)
	reported(1)
	routers[1].CloseClientConnections()
	routers[1].Close() // and is dead
	acts.Store(0)
	reported(0)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestOneAddressOfSeveralRouters: behind one address, as of a Service of Kubernetes, connections lead to any of two
// routers. All of the agent's get to the acting one, also after another acts.
func TestOneAddressOfSeveralRouters(t *testing.T) {
	var acts atomic.Int32 // the router that does
	var reports, present [2]atomic.Int32
	var routers []*httptest.Server
	for i := range reports {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case int(acts.Load()) != i:
				w.Header().Set("Connection", "close")
				w.WriteHeader(http.StatusConflict)
			case strings.HasSuffix(r.URL.Path, "/heartbeat"):
				reports[i].Add(1)
				w.WriteHeader(http.StatusNoContent)
			case strings.HasSuffix(r.URL.Path, "/presence"):
				present[i].Add(1)
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				present[i].Add(-1)
			default:
				_ = json.NewEncoder(w).Encode(agents.Accepted{Term: uint64(1 + i), HeartbeatMS: 10, Misses: 2})
			}
		}))
		defer s.Close()
		routers = append(routers, s)
	}
	a, err := NewAgent(AgentConfig{
		Router: "http://gearshift-admin:8081", Host: "h1", Incarnation: 1, Loaded: func() []string { return []string{} },
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, routers[rand.IntN(len(routers))].Listener.Addr().String())
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	for turn := range 6 {
		to := turn % len(routers)
		acts.Store(int32(to))
		before := reports[to].Load()
		etcdtest.Eventually(t, "heartbeats come, and the agent is present", func() bool {
			return reports[to].Load() > before+20 && present[to].Load() == 1
		})
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestNoneOfSeveralRoutersAccepts: the agent says once of each router why, and again after one has accepted it.
func TestNoneOfSeveralRoutersAccepts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &trial{t: t, router: &router{accepted: agents.Accepted{Term: 3, HeartbeatMS: 20, Misses: 2}, tokens: map[string]bool{}, began: time.Now()}}
		standBy := true
		x.answer = func(w http.ResponseWriter, r *http.Request) bool {
			if standBy {
				refuse(w, http.StatusConflict, r.Host+" stands by")
			}
			return standBy
		}
		set := func(to bool) {
			x.mu.Lock()
			defer x.mu.Unlock()
			standBy = to
		}
		x.start()
		a, err := NewAgent(AgentConfig{
			Router: "http://one,http://two", Token: "secret", Host: "h1", Version: "1.2.3", Incarnation: 7, URL: "http://10.0.0.7:9001", Memory: 4 << 30,
			Loaded: func() []string { return []string{} }, Dial: x.dial, Log: slog.New(slog.NewTextHandler(&x.log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		holds := func(text string, want int) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := strings.Count(x.log.String(), text); n != want {
				t.Errorf("%q is logged %d times, want %d: %s", text, n, want, x.log.String())
			}
		}
		holds("stands by", 2)
		set(false)
		holds("msg=registered", 1)
		set(true)
		holds("stands by", 4)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		x.stop()
	})
}
