package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/env/evaluation"
	"gearshift/internal/app"
	"gearshift/internal/onnxruntime"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/profile"
	"gearshift/serving"
	"gearshift/serving/control"
	"gearshift/serving/work"
	"gearshift/workloads"
)

// flood is Poisson arrivals, or recorded ones, on the whole server, over the scenario's
// simulated engines, streamed, in a bubble whose clock runs as fast as the work is done:
// what serve and replay do in real time, on a machine that always keeps up.
type flood struct {
	scenario *scenario.Scenario
	policy   string
	store    string
	rate     float64 // per second
	length   time.Duration
	trace    string // file of the arrivals, rescaled to the rate; none: Poisson
	seed     uint64 // 0: the first of serving
	// slow is how many times as long as their profiles say the first hosts take, of which
	// there are so many; 0 is as long.
	slow  float64
	hosts int
}

// flooded is what came of the requests.
type flooded struct {
	mu       sync.Mutex
	accepted int
	met      int
	utility  float64
	variants map[string]int
	longest  time.Duration  // wait of an accepted one
	sheds    map[string]int // by status and reason
	withRoom int            // sheds while some replica had room
	freed    time.Duration  // when there was more room last
	retry    map[string]int // Retry-After of sheds
}

// Ended implements serving.Watcher.
func (f *flooded) Ended(w *work.Work, r work.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.accepted++
	f.utility += r.Utility
	if r.Met {
		f.met++
	}
	f.longest = max(f.longest, w.Waited)
	f.variants[fmt.Sprint(w.Variant)]++
}

// run plays the flood.
func (x flood) run(t *testing.T) *flooded {
	f := &flooded{variants: map[string]int{}, sheds: map[string]int{}, retry: map[string]int{}}
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		core, err := app.NewCore(x.scenario, x.scenario.Serving.Fallback, log)
		if err != nil {
			t.Fatal(err)
		}
		reloader, err := app.NewReloader(app.Options{Policy: x.policy, Store: x.store, Engine: onnxruntime.Native}, x.scenario, core.Core, log)
		if err != nil {
			t.Fatal(err)
		}
		if err := reloader.Choose(); err != nil {
			t.Fatal(err)
		}
		backends, closeBackends, err := app.NewBackends(x.scenario, core.Table())
		if err != nil {
			t.Fatal(err)
		}
		defer closeBackends()
		if x.slow > 0 {
			x.slowDown(t, core.Table(), backends)
		}
		clock, busy := work.WallClock(), x.scenario.Busy(core.Ledger())
		server, err := serving.New(serving.Options{
			Config: x.scenario.Serving.Config(), Router: core, Backends: backends, Clock: clock, Log: log,
			Drift: app.NewDrift(x.scenario, core.Table(), log), Watchers: []serving.Watcher{f}, OutputTokens: x.scenario.Lengths().Output,
			Busy: busy, Modules: []serving.Module{control.Shown{Busy: busy}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		core.Ledger().OnRoom(func() {
			f.mu.Lock()
			f.freed = clock()
			f.mu.Unlock()
		})
		x.send(t, server, core.Core, clock, f)
		if n := core.Ledger().InFlight(); n != 0 {
			t.Errorf("%d requests still in flight", n)
		}
	})
	return f
}

// slowDown puts engines that take longer in the place of those of the first hosts.
func (x flood) slowDown(t *testing.T, table *fleet.Table, list []serving.Backend) {
	t.Helper()
	profiles := x.scenario.Profiles()
	for i, p := range profiles {
		profiles[i] = p.Slower(x.slow)
	}
	engines, err := app.NewSimulated(x.scenario, table, profiles)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engines.Close)
	for host := range x.hosts {
		for _, i := range table.ReplicasOn(host) {
			list[i].Transport = engines.Replica(i)
		}
	}
}

func (x flood) requests() int { return int(x.rate * x.length.Seconds()) }

// start is the seed of the arrivals.
func (x flood) start() uint64 { return cmp.Or(x.seed, workloads.Seed(workloads.Serving, 0)) }

// open begins the arrivals of a seed.
func (x flood) open(seed uint64) (workloads.Stream, error) {
	spec := workloads.Spec{Form: "poisson", Rate: x.rate}
	if x.trace != "" {
		spec.Form, spec.File = "trace", x.trace
	}
	return spec.Open(x.scenario.Settings(x.requests()), seed)
}

// simulated is what the simulator says of the same requests, as served.
func (x flood) simulated(t *testing.T) evaluation.Result {
	t.Helper()
	s := *x.scenario
	s.Served = true
	source, err := onnxruntime.Source(x.store, onnxruntime.Native)
	if err != nil {
		t.Fatal(err)
	}
	c, err := policies.Contestant(&s, source, x.policy, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	plan := evaluation.Plan{
		Contestants: []evaluation.Contestant{c}, Workloads: []evaluation.Workload{{Name: "flood", Open: x.open}}, Seeds: []uint64{x.start()},
	}
	results, err := plan.Evaluate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return results[0]
}

// send sends each request at its time and waits for all answers.
func (x flood) send(t *testing.T, server *serving.Server, core *router.Core, clock work.Clock, f *flooded) {
	stream, err := x.open(x.start())
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for a, ok := stream.Next(); ok; a, ok = stream.Next() {
		time.Sleep(a.At - clock())
		all.Go(func() {
			r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(fmt.Sprintf(
				`{"model":"auto","stream":true,"stream_options":{"include_usage":true},"max_tokens":%d,"ignore_eos":true,"messages":[{"role":"user","content":%q}]}`,
				a.OutputTokens, strings.Repeat("word ", a.PromptTokens))))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("X-Gearshift-Task", x.scenario.Tasks[a.Task].Name)
			w := &sink{header: http.Header{}}
			server.Handler().ServeHTTP(w, r)
			if w.status == http.StatusOK {
				return
			}
			refused := clock()
			room := x.room(core, refused, &fleet.Request{Task: a.Task, PromptTokens: a.PromptTokens, Arrival: a.At})
			time.Sleep(time.Nanosecond) // until who makes room at this moment has said so
			f.mu.Lock()
			defer f.mu.Unlock()
			f.sheds[fmt.Sprint(w.status, " ", w.header.Get("X-Gearshift-Reason"))]++
			f.retry[w.header.Get("Retry-After")]++
			// Room that came at this moment, as the refusal did, is the next one's.
			if room && f.freed < refused {
				f.withRoom++
			}
		})
	}
	all.Wait()
}

// room says whether any replica has room for the request.
func (x flood) room(core *router.Core, now time.Duration, r *fleet.Request) bool {
	var v fleet.View
	core.Ledger().View(now, &v)
	profile.NewForecaster(x.scenario.Profiles()).Forecast(&v, r)
	for i := range v.InFlight {
		if v.Available(i) && x.scenario.Gate().Room(&v, r, i) {
			return true
		}
	}
	return false
}

// sink is a client's connection that keeps nothing but the status.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header { return s.header }

func (s *sink) WriteHeader(status int) {
	if s.status == 0 {
		s.status = status
	}
}

func (s *sink) Write(p []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	return len(p), nil
}

func (s *sink) Flush() {}
