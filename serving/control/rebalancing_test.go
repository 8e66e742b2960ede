package control_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router"
	"gearshift/router/balance"
	routercontrol "gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
	"gearshift/router/placement/bands"
	changes "gearshift/router/rollout"
	"gearshift/router/signals"
	"gearshift/serving"
	"gearshift/serving/config"
	"gearshift/serving/control"
	"gearshift/serving/control/rollout"
	"gearshift/serving/engines/agents"
)

// engine is one in memory, whose models load within a second and answer at once.
type engine struct {
	base   *url.URL
	broken bool // no model loads

	mu     sync.Mutex
	loaded map[string]bool
}

func newEngine(host string, loaded ...string) *engine {
	base, _ := url.Parse("http://" + host + ":9001")
	e := &engine{base: base, loaded: map[string]bool{}}
	for _, m := range loaded {
		e.loaded[m] = true
	}
	return e
}

// Base implements [engines.Server].
func (e *engine) Base() *url.URL { return e.base }

// Get implements [engines.Server].
func (e *engine) Get(ctx context.Context, path string) (*http.Response, error) {
	return e.Ask(ctx, http.MethodGet, path, nil, nil)
}

// Ask implements [agents.Engine].
func (e *engine) Ask(_ context.Context, _, path string, _ http.Header, _ []byte) (*http.Response, error) {
	w := httptest.NewRecorder()
	order, isOrder := strings.CutPrefix(path, "/v2/repository/models/")
	model, verb, _ := strings.Cut(order, "/")
	switch {
	case path == "/v2/repository/index":
		e.mu.Lock()
		list := []map[string]string{}
		for _, m := range append(e.versions(), models...) {
			state := "UNAVAILABLE"
			if e.loaded[m] {
				state = "READY"
			}
			list = append(list, map[string]string{"name": m, "state": state, "reason": "unloaded"})
		}
		e.mu.Unlock()
		_ = json.NewEncoder(w).Encode(list)
	case isOrder && e.broken && verb == "load":
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"error":{"message":"the file is damaged"}}`)
	case isOrder:
		if verb == "load" {
			time.Sleep(time.Second)
		}
		e.mu.Lock()
		e.loaded[model] = verb == "load"
		e.mu.Unlock()
	case path != "/health":
		http.NotFound(w, httptest.NewRequest(http.MethodGet, path, nil))
	}
	return w.Result(), nil
}

// versions are those that were loaded beside the first of each model.
func (e *engine) versions() (list []string) {
	for m := range e.loaded {
		if !slices.Contains(models, m) {
			list = append(list, m)
		}
	}
	return list
}

// RoundTrip implements [http.RoundTripper].
func (e *engine) RoundTrip(r *http.Request) (*http.Response, error) {
	var ask struct{ Model string }
	text, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(text, &ask)
	status, body := http.StatusOK, `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
	e.mu.Lock()
	if !e.loaded[ask.Model] {
		status, body = http.StatusNotFound, `{"error":{"message":"the model is not loaded","param":"model"}}`
	}
	e.mu.Unlock()
	return &http.Response{StatusCode: status, ContentLength: -1, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

var models = []string{"one", "two", "three"}

// rig is a router before two engines; all models are loaded on the first.
type rig struct {
	versions *rollout.Module // nil: they do not change
	engines  [2]*engine
	server   *serving.Server
	module   *control.Rebalancing
}

func newRig(t *testing.T, change func(*control.RebalancingOptions)) *rig {
	t.Helper()
	return newRigOf(t, change, false)
}

// newRigOf is a rig whose models change their versions, if that is asked for.
func newRigOf(t *testing.T, change func(*control.RebalancingOptions), versions bool) *rig {
	t.Helper()
	var variants []fleet.Variant
	var weights []fleet.Model
	var replicas []fleet.Replica
	for v, name := range models {
		variants, weights = append(variants, fleet.Variant{Name: name, Model: v}), append(weights, fleet.Model{Name: name, Memory: 100})
	}
	for h, host := range []string{"h1", "h2"} {
		for v, name := range models {
			r := fleet.Replica{Name: name + "@" + host, Variant: v, Host: h, Initial: fleet.Cold}
			if h == 0 {
				r.Initial = fleet.Up
			}
			replicas = append(replicas, r)
		}
	}
	half := len(replicas)
	if versions {
		for _, r := range replicas[:half] {
			r.Name, r.Initial = r.Name+"#2", fleet.Cold
			replicas = append(replicas, r)
		}
	}
	table, err := fleet.NewTable([]fleet.Task{{Name: "task", Deadline: time.Second, Weight: 1, Quality: []float64{1, 1, 1}}},
		variants, []fleet.Host{{Name: "h1", Memory: 1000}, {Name: "h2", Memory: 1000}}, replicas, weights...)
	if err != nil {
		t.Fatal(err)
	}
	core, err := router.New(router.Config{Ledger: fleet.NewLedger(table), Fallback: first{}, Balancer: balance.SmallestBatch{}})
	if err != nil {
		t.Fatal(err)
	}
	o := control.RebalancingOptions{
		Ledger: core.Ledger(), Busy: signals.NewBusy(core.Ledger(), signals.BusyOptions{
			Takes:  func(int, int) time.Duration { return 50 * time.Millisecond },
			AtOnce: slices.Repeat([]int{8}, len(replicas)),
		}),
		Settings: bands.Settings{Options: bands.DefaultOptions(), Period: 10 * time.Second, AtOnce: 1, Threshold: 0.01, Newest: 1},
	}
	change(&o)
	g := &rig{engines: [2]*engine{newEngine("h1", models...), newEngine("h2")}}
	if g.module, err = control.NewRebalancing(o); err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Metrics, c.Gauges.Interval, c.Health.ProbeModels = config.MetricsOpen, 0, false
	s := serving.Options{Config: c, Router: core, AdminToken: "a-token-of-enough-characters", Busy: o.Busy, Modules: []serving.Module{g.module}}
	own, err := agents.DialectNamed("gearshift")
	if err != nil {
		t.Fatal(err)
	}
	for range len(replicas) / half {
		for h := range g.engines {
			for _, m := range models {
				s.Backends = append(s.Backends, serving.Backend{Transport: g.engines[h], Lifecycle: own, Model: m})
			}
		}
	}
	if versions {
		g.addVersions(t, &s, half)
	}
	if g.server, err = serving.New(s); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.server.Drain(); g.server.Close() })
	return g
}

// addVersions has versions of models change, by replicas that take turns.
func (g *rig) addVersions(t *testing.T, s *serving.Options, half int) {
	names, versioned := make([]*config.Name, 2*half), []changes.Versioned(nil)
	for i := range names {
		names[i] = new(config.Name)
		names[i].Set(s.Backends[i].Model)
		s.Backends[i].Versioned = names[i]
	}
	for v, name := range models {
		versioned = append(versioned, changes.Versioned{Name: name, Version: "1", Locations: []changes.Location{
			{Host: 0, Replicas: [2]int{v, half + v}}, {Host: 1, Replicas: [2]int{len(models) + v, half + len(models) + v}},
		}})
	}
	o := changes.DefaultOptions()
	o.Warmup = time.Second
	var err error
	if g.versions, err = rollout.New(rollout.Options{Models: versioned, Controller: o, Ledger: s.Router.Ledger(), Names: names, Pattern: "{model}@{version}", Busy: s.Busy}); err != nil {
		t.Fatal(err)
	}
	s.Modules = append([]serving.Module{g.versions}, s.Modules...)
}

// first takes the first variant; clients name theirs.
type first struct{}

func (first) Name() string                                      { return "first@1" }
func (first) Scratch() int                                      { return 0 }
func (first) Decide(*fleet.View, *fleet.Request, []float32) int { return 0 }

// load asks for models in turn, ten times a second, and returns how many were not answered.
func (g *rig) load(t *testing.T, d time.Duration) (failed int) {
	t.Helper()
	for end, i := time.Now().Add(d), 0; time.Now().Before(end); i++ {
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", bytes.NewReader([]byte(`{"model":"`+models[i%len(models)]+`","messages":[{"role":"user","content":"hi"}]}`)))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if g.server.Handler().ServeHTTP(w, r); w.Code != http.StatusOK {
			failed++
		}
		time.Sleep(100 * time.Millisecond)
	}
	return failed
}

// on lists the replicas on a host that are loaded.
func on(s control.RebalancingSituation, host int) (names []string) {
	for _, r := range s.Hosts[host].Replicas {
		names = append(names, r.Name)
	}
	return names
}

// TestAReplicaMovesWhileItAnswers: of three models on one host of two, one is moved to the other,
// and no request fails.
func TestAReplicaMovesWhileItAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, func(*control.RebalancingOptions) {})
		if failed := g.load(t, 45*time.Second); failed > 0 {
			t.Errorf("%d requests failed", failed)
		}
		s := g.module.Situation()
		if len(on(s, 0)) != 2 || len(on(s, 1)) != 1 || s.Moved != 1 || s.Failed != 0 {
			t.Fatalf("%+v", s)
		}
		if b := s.Hosts[0].Busy; b < 0.3 || b > 0.36 {
			t.Errorf("the first host is busy for %v of its time, want two thirds of .5", b)
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "http://localhost/admin/rebalancing", nil)
		r.Header.Set("Authorization", "Bearer a-token-of-enough-characters")
		g.server.AdminHandler().ServeHTTP(w, r)
		if !strings.Contains(w.Body.String(), `"moved":1`) {
			t.Errorf("the endpoint says %s", w.Body)
		}
	})
}

// TestWhatFailoverHoldsStays: what a controller of a higher rank holds is not moved.
func TestWhatFailoverHoldsStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, func(*control.RebalancingOptions) {})
		e := g.server.Engines()
		e.Do(func() { e.Claim(lifecycle.Failover, func(routercontrol.Event) {}).Hold([]int{0, 1, 2}, nil) })
		g.load(t, 45*time.Second)
		if s := g.module.Situation(); !slices.Equal(on(s, 0), []string{"one@h1", "two@h1", "three@h1"}) || s.Moved+s.Failed > 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestWhatHasAnotherVersionMoves: while a version is changed on a host nothing moves of that model. After that a
// replica moves, and the version that is wanted is loaded where it goes.
func TestWhatHasAnotherVersionMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRigOf(t, func(*control.RebalancingOptions) {}, true)
		for _, m := range models {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, "http://localhost/admin/versions/"+m+"/roll", strings.NewReader(`{"to":"2"}`))
			r.Header.Set("Authorization", "Bearer a-token-of-enough-characters")
			if g.server.AdminHandler().ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
		if failed := g.load(t, 90*time.Second); failed > 0 {
			t.Errorf("%d requests failed", failed)
		}
		for _, v := range g.versions.Versions() {
			if v.Version != "2" || v.State != "steady" || v.Failures > 0 {
				t.Errorf("%+v", v)
			}
		}
		s := g.module.Situation()
		if s.Moved != 1 || s.Failed != 0 || len(on(s, 0)) != 2 || len(on(s, 1)) != 1 {
			t.Errorf("%+v", s)
		}
		for h, e := range g.engines {
			for m, there := range e.loaded {
				if there && !strings.HasSuffix(m, "@2") {
					t.Errorf("h%d has %s loaded", h+1, m)
				}
			}
		}
	})
}

// TestALoadThatFails: the replica goes on to answer where it was.
func TestALoadThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, func(*control.RebalancingOptions) {})
		g.engines[1].broken = true
		if failed := g.load(t, 35*time.Second); failed > 0 {
			t.Errorf("%d requests failed", failed)
		}
		if s := g.module.Situation(); len(on(s, 0)) != 3 || s.Failed == 0 || s.Moved > 0 {
			t.Errorf("%+v", s)
		}
	})
}
