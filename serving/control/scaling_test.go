package control_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router"
	"gearshift/router/balance"
	routercontrol "gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
	"gearshift/router/placement/replicas"
	"gearshift/router/signals"
	"gearshift/serving"
	"gearshift/serving/config"
	"gearshift/serving/control"
	"gearshift/serving/control/states"
	"gearshift/serving/engines/agents"
)

// scaledEngine is one in memory, whose model loads within five seconds and answers at once.
type scaledEngine struct{ switched }

// Get implements [engines.Server].
func (e *scaledEngine) Get(ctx context.Context, path string) (*http.Response, error) {
	return e.Ask(ctx, http.MethodGet, path, nil, nil)
}

// Ask implements [agents.Engine].
func (e *scaledEngine) Ask(_ context.Context, _, path string, _ http.Header, _ []byte) (*http.Response, error) {
	w := httptest.NewRecorder()
	switch {
	case path == "/v2/repository/index":
		state := "UNAVAILABLE"
		if e.is() {
			state = "READY"
		}
		_ = json.NewEncoder(w).Encode([]map[string]string{{"name": "m", "state": state, "reason": "unloaded"}})
	case strings.HasSuffix(path, "/load"):
		time.Sleep(5 * time.Second)
		e.set(true)
	case strings.HasSuffix(path, "/unload"):
		e.set(false)
	case path != "/health":
		http.NotFound(w, httptest.NewRequest(http.MethodGet, path, nil))
	}
	return w.Result(), nil
}

// RoundTrip implements [http.RoundTripper].
func (e *scaledEngine) RoundTrip(*http.Request) (*http.Response, error) {
	return e.answer(http.StatusNotFound, `{"error":{"message":"the model is not loaded","param":"model"}}`), nil
}

// scalingRig is a router before four engines, the first of which has the model loaded.
type scalingRig struct {
	engines [4]*scaledEngine
	server  *serving.Server
	counts  *control.Scaling
}

// only decides for the one variant.
type only struct{}

func (only) Name() string                                      { return "only@1" }
func (only) Scratch() int                                      { return 0 }
func (only) Decide(*fleet.View, *fleet.Request, []float32) int { return 0 }

func newScalingRig(t *testing.T, kept ...states.Store) *scalingRig {
	t.Helper()
	g := &scalingRig{}
	var hosts []fleet.Host
	var list []fleet.Replica
	own, err := agents.DialectNamed("gearshift")
	if err != nil {
		t.Fatal(err)
	}
	var backends []serving.Backend
	for i, host := range []string{"h1", "h2", "h3", "h4"} {
		base, _ := url.Parse("http://" + host + ":9001")
		g.engines[i] = &scaledEngine{switched{base: base, on: i == 0}}
		r := fleet.Replica{Name: "m@" + host, Host: i, Initial: fleet.Cold}
		if i == 0 {
			r.Initial = fleet.Up
		}
		hosts, list = append(hosts, fleet.Host{Name: host, Memory: 1000}), append(list, r)
		backends = append(backends, serving.Backend{Transport: g.engines[i], Lifecycle: own, Model: "m"})
	}
	table, err := fleet.NewTable([]fleet.Task{{Name: "task", Deadline: time.Second, Weight: 1, Quality: []float64{1}}}, []fleet.Variant{{Name: "m"}}, hosts, list, fleet.Model{Name: "m", Memory: 100})
	if err != nil {
		t.Fatal(err)
	}
	ledger := fleet.NewLedger(table)
	core, err := router.New(router.Config{Ledger: ledger, Fallback: only{}, Balancer: balance.SmallestBatch{}})
	if err != nil {
		t.Fatal(err)
	}
	busy := signals.NewBusy(ledger, signals.BusyOptions{Takes: func(int, int) time.Duration { return 200 * time.Millisecond }})
	o := control.ScalingOptions{Ledger: ledger, Busy: busy, Period: 10 * time.Second, Counted: []replicas.Counted{{Least: 1, Plan: replicas.Plan{
		Forecast: replicas.Daily(time.Minute), Interval: time.Minute, Capacity: 1, WarmUp: 5 * time.Second, Keep: time.Minute,
		Target: 0.8, Guard: 0.8, Stabilisation: time.Minute, Least: 1,
	}}}}
	if len(kept) > 0 {
		o.States = kept[0]
	}
	g.counts, err = control.NewScaling(o)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := control.NewTail(control.TailOptions{Table: table, Busy: busy, Target: 0.7, Counts: func() any { return g.counts.Situation() }})
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Metrics, c.Gauges.Interval, c.Health.ProbeModels = config.MetricsOpen, 0, false
	g.server, err = serving.New(serving.Options{Config: c, Router: core, Busy: busy, AdminToken: "a-token-of-enough-characters", Backends: backends, Modules: []serving.Module{g.counts, shown}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.server.Drain(); g.server.Close() })
	return g
}

// load has requests come, each of which keeps a host busy for 200 ms, and returns how many were not answered.
func (g *scalingRig) load(hosts float64, d time.Duration) (failed int) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Duration(0.2 / hosts * float64(time.Second))) {
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", bytes.NewReader([]byte(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`)))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if g.server.Handler().ServeHTTP(w, r); w.Code != http.StatusOK {
			failed++
		}
	}
	return failed
}

func (g *scalingRig) loaded() (n int) {
	for _, e := range g.engines {
		if e.is() {
			n++
		}
	}
	return n
}

// TestReplicasFollowTheLoad: engines load the model as the load rises and unload it after, no request fails, and
// operators see it.
func TestReplicasFollowTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newScalingRig(t)
		for _, x := range []struct {
			load float64
			want int
		}{{0.5, 1}, {2, 3}, {2.8, 4}, {0.5, 1}} {
			failed := g.load(x.load, 4*time.Minute)
			if n := g.loaded(); n != x.want || failed > 0 {
				t.Errorf("at a load of %v %d engines have the model loaded, want %d; %d requests failed", x.load, n, x.want, failed)
			}
		}
		s := g.counts.Situation()[0]
		if s.Variant != "m" || s.Up != 1 || s.Loading != 0 || s.Wanted != 1 || s.Load < 0.4 || s.Load > 0.6 {
			t.Errorf("%+v", s)
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "http://localhost/admin/tail", nil)
		r.Header.Set("Authorization", "Bearer a-token-of-enough-characters")
		if g.server.AdminHandler().ServeHTTP(w, r); !strings.Contains(w.Body.String(), `"counts":[{"variant":"m","up":1,`) {
			t.Errorf("the endpoint says %s", w.Body)
		}
		w = httptest.NewRecorder()
		if g.server.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil)); !strings.Contains(w.Body.String(), `gearshift_scaling_replicas{of="wanted",variant="m"} 1`) {
			t.Error("the metrics do not have the number that is wanted")
		}
	})
}

// TestLoadsSurviveARestart: a router that starts again expects the load of before, whether the one before has ended or
// died, and one that has no file expects nothing.
func TestLoadsSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.db")
		g := newScalingRig(t, states.At(path))
		g.load(2, 10*time.Minute)
		before := g.counts.Situation()[0].Expected
		died, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		g.server.Close()
		if err := g.counts.Close(); err != nil {
			t.Fatal(err)
		}
		other := filepath.Join(t.TempDir(), "died.db")
		if err := os.WriteFile(other, died, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{path, other} {
			again := newScalingRig(t, states.At(path))
			if after := again.counts.Situation()[0].Expected; before < 1.8 || after < 0.95*before || after > 1.05*before {
				t.Errorf("%v hosts are expected to be busy, and before %v", after, before)
			}
			again.server.Close()
			if err := again.counts.Close(); err != nil {
				t.Error(err)
			}
		}
		if s := newScalingRig(t).counts.Situation()[0]; s.Expected != 0 {
			t.Errorf("%v hosts are expected to be busy before any load is known", s.Expected)
		}
	})
}

// turned holds states that come with a turn.
type turned struct {
	states.State
	follow func(states.Turn) error
}

func (s *turned) Save([]byte) error { return states.ErrStandsBy }
func (s *turned) Close() error      { return nil }

func (s *turned) Open(string, time.Time) (states.State, error) { return s, nil }
func (s *turned) Follow(f func(states.Turn) error)             { s.follow = f }
func (s *turned) Last() []byte                                 { return nil }
func (s *turned) Trouble() string                              { return "" }

// TestLoadsComeWithATurn: a router that begins to act expects the load that the one before has saved.
func TestLoadsComeWithATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.db")
		g := newScalingRig(t, states.At(path))
		g.load(2, 10*time.Minute)
		before := g.counts.Situation()[0].Expected
		g.server.Close()
		if err := g.counts.Close(); err != nil {
			t.Fatal(err)
		}
		saved, err := states.At(path).Open(states.Replicas, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		defer saved.Close()
		s := &turned{}
		next := newScalingRig(t, s)
		for _, acts := range []bool{false, true} {
			if err := s.follow(states.Turn{Acts: acts, Term: 2, Last: saved.Last()}); err != nil {
				t.Fatal(err)
			}
			if after := next.counts.Situation()[0].Expected; acts && (before < 1.8 || after < 0.95*before || after > 1.05*before) || !acts && after != 0 {
				t.Errorf("acts %v: %v hosts are expected to be busy, and before %v", acts, after, before)
			}
		}
		next.server.Close()
		if err := next.counts.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestWhatFailoverHoldsStaysUp: of what is up, what failover holds is not unloaded.
func TestWhatFailoverHoldsStaysUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newScalingRig(t)
		g.load(2.8, 2*time.Minute)
		e := g.server.Engines()
		e.Do(func() { e.Claim(lifecycle.Failover, func(routercontrol.Event) {}).Hold([]int{1, 3}, nil) })
		g.load(0.3, 5*time.Minute)
		if g.loaded() != 2 || !g.engines[1].is() || !g.engines[3].is() {
			t.Errorf("%d engines have the model loaded, want the second and the last, which failover holds", g.loaded())
		}
	})
}
