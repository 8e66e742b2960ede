package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/internal/app"
	"gearshift/internal/memnet"
	"gearshift/internal/scenario"
	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/engineserver"
)

// enginePark is a server of engines for each host of a scenario.
type enginePark struct {
	servers  []*engineserver.Server
	backends []serving.Backend
	close    func()
}

func parkEngines(t *testing.T, s *scenario.Scenario, table *fleet.Table) *enginePark {
	t.Helper()
	hosts, err := enginesOf(s, engineOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := &enginePark{backends: make([]serving.Backend, len(table.Replicas))}
	ctx, stop := context.WithCancel(t.Context())
	var served sync.WaitGroup
	var transports []*http.Transport
	for h, engines := range hosts {
		server, err := engineserver.New(engineserver.Config{Engines: engines, Faulty: true})
		if err != nil {
			t.Fatal(err)
		}
		l := memnet.Listen()
		served.Go(func() {
			if err := server.Serve(ctx, l); err != nil {
				t.Error(err)
			}
		})
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.Dial(ctx) }, MaxIdleConnsPerHost: 100}
		p.servers, transports = append(p.servers, server), append(transports, transport)
		for _, i := range table.ReplicasOn(h) {
			p.backends[i].Transport = transport
		}
	}
	p.close = func() {
		for _, transport := range transports {
			transport.CloseIdleConnections()
		}
		stop()
		served.Wait()
	}
	return p
}

// fault has the host's engines misbehave from now on.
func (p *enginePark) fault(t *testing.T, host int, faults string) {
	t.Helper()
	w := httptest.NewRecorder()
	p.servers[host].Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/fault", strings.NewReader(faults)))
	if w.Code != http.StatusOK {
		t.Fatal(w.Body)
	}
}

// evenly is requests that come at an even pace, and where those of each phase went.
type evenly struct {
	server http.Handler
	gap    time.Duration
	all    sync.WaitGroup

	mu       sync.Mutex
	given    []map[string]int // by phase and replica
	answered int
	took     time.Duration // all that are answered together
}

// phase sends so many requests, and does not wait for their answers.
func (x *evenly) phase(t *testing.T, requests int) {
	given := map[string]int{}
	x.given = append(x.given, given)
	for range requests {
		time.Sleep(x.gap)
		x.all.Go(func() {
			r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(
				`{"model":"auto","stream":true,"max_tokens":30,"ignore_eos":true,"messages":[{"role":"user","content":"how do gears turn"}]}`))
			r.Header.Set("Content-Type", "application/json")
			w, began := &sink{header: http.Header{}}, time.Now()
			x.server.ServeHTTP(w, r)
			if w.status != http.StatusOK {
				t.Errorf("status %d", w.status)
			}
			x.mu.Lock()
			defer x.mu.Unlock()
			given[w.header.Get("X-Gearshift-Replica")]++
			x.answered++
			x.took += time.Since(began)
		})
	}
}

// usual is the mean time that the answers so far have taken.
func (x *evenly) usual() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.took / time.Duration(x.answered)
}

// server is a whole server of the scenario before the engines, whose requests for any
// size all go to one.
func (p *enginePark) server(t *testing.T, s *scenario.Scenario, core *router.Core, variant string) *serving.Server {
	t.Helper()
	rules, err := s.Maker(core.Table())
	if err != nil {
		t.Fatal(err)
	}
	policy, err := rules.Parse("static:" + variant)
	if err != nil {
		t.Fatal(err)
	}
	if err := core.SetPolicy(policy); err != nil {
		t.Fatal(err)
	}
	server, err := serving.New(serving.Options{
		Config: s.Serving.Config(), Router: core, Backends: p.backends, OutputTokens: s.Lengths().Output,
	})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// production-stack #855: a replica that turns five times as slow and still answers, so
// that nothing ejects it, gets a clearly smaller share than the others of its variant,
// and its own again once it is as quick as they are. What it has not answered counts as
// in flight there, and drives the next away. Not so with least-harm, which goes by what
// the profiles say of those in flight.
func TestASlowEngineLosesTraffic(t *testing.T) {
	for _, balancer := range []string{"smallest-batch", "smallest-fitting", "least-work", "power-of-two"} {
		t.Run(balancer, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := scenario.Load("titan-rtx-opt")
				if err != nil {
					t.Fatal(err)
				}
				s.Serving.Balancer = balancer
				core, err := app.NewCore(s, s.Serving.Fallback, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				engines := parkEngines(t, s, core.Table())
				defer engines.close()
				server := engines.server(t, s, core.Core, "opt-1.3b")
				defer server.Close()
				const host, replica = 1, "opt-1.3b@gpu1"
				x := &evenly{server: server.Handler(), gap: 20 * time.Millisecond}
				x.phase(t, 300)
				engines.fault(t, host, fmt.Sprintf("slow=1,delay=%v", 4*x.usual()))
				x.phase(t, 200) // until it has found its measure
				x.phase(t, 300)
				engines.fault(t, host, "")
				x.phase(t, 200)
				x.phase(t, 300)
				x.all.Wait()
				for phase, bounds := range map[int][2]float64{0: {0.8, 1.25}, 2: {0, 0.5}, 4: {0.8, 1.25}} {
					mine, all := x.given[phase][replica], 0
					for _, n := range x.given[phase] {
						all += n
					}
					if share := 3 * float64(mine) / float64(all-mine); share < bounds[0] || share > bounds[1] {
						t.Errorf("phase %d: it gets %.2f of what another does, want %v: %v", phase, share, bounds, x.given[phase])
					}
				}
			})
		})
	}
}
