package control_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router"
	"gearshift/router/balance"
	"gearshift/router/fleet"
	"gearshift/router/placement/layouts"
	"gearshift/router/signals"
	"gearshift/serving"
	"gearshift/serving/config"
	"gearshift/serving/control"
	"gearshift/serving/engines/agents"
)

// sleeper is an engine in memory that speaks vLLM's sleep mode. It answers at once while it is awake.
type sleeper struct{ switched }

// Get implements [engines.Server].
func (e *sleeper) Get(ctx context.Context, path string) (*http.Response, error) {
	return e.Ask(ctx, http.MethodGet, path, nil, nil)
}

// Ask implements [agents.Engine].
func (e *sleeper) Ask(_ context.Context, _, path string, _ http.Header, _ []byte) (*http.Response, error) {
	w := httptest.NewRecorder()
	switch path, _, _ := strings.Cut(path, "?"); path {
	case "/is_sleeping":
		_ = json.NewEncoder(w).Encode(map[string]bool{"is_sleeping": e.sleeps()})
	case "/sleep":
		time.Sleep(300 * time.Millisecond)
		e.set(false)
	case "/wake_up":
		time.Sleep(800 * time.Millisecond)
		e.set(true)
	case "/health", "/reset_prefix_cache", "/collective_rpc":
	default:
		http.NotFound(w, httptest.NewRequest(http.MethodGet, path, nil))
	}
	return w.Result(), nil
}

func (e *sleeper) sleeps() bool { return !e.is() }

// RoundTrip implements [http.RoundTripper].
func (e *sleeper) RoundTrip(*http.Request) (*http.Response, error) {
	return e.answer(http.StatusServiceUnavailable, `{"error":{"message":"asleep"}}`), nil
}

// sleepers is a router before three engines of one host: a small and a large size, and the small one at a larger share
// of memory, asleep.
type sleepers struct {
	engines [3]*sleeper
	server  *serving.Server
	placed  *control.Placement
	log     bytes.Buffer
}

// anyUp decides for the last variant that is up.
type anyUp struct{}

func (anyUp) Name() string { return "any@1" }
func (anyUp) Scratch() int { return 0 }
func (anyUp) Decide(v *fleet.View, r *fleet.Request, _ []float32) int {
	if v.State(1) == fleet.Up {
		return 1
	}
	return 0
}

func newSleepers(t *testing.T, shadow bool) *sleepers {
	t.Helper()
	g := &sleepers{}
	vllm, err := agents.DialectNamed("vllm")
	if err != nil {
		t.Fatal(err)
	}
	list := []fleet.Replica{{Name: "small@h", Memory: 20}, {Name: "large@h", Variant: 1, Memory: 75}, {Name: "small-more@h", Memory: 75, Initial: fleet.Warm}}
	var backends []serving.Backend
	for i := range list {
		base, _ := url.Parse("http://h:900" + string(rune('1'+i)))
		g.engines[i] = &sleeper{switched{base: base, on: i != 2}}
		backends = append(backends, serving.Backend{Transport: g.engines[i], Lifecycle: vllm, Model: "m"})
	}
	table, err := fleet.NewTable([]fleet.Task{{Name: "chat", Deadline: time.Second, Weight: 1, Quality: []float64{0.8, 1}}}, []fleet.Variant{{Name: "small"}, {Name: "large"}}, []fleet.Host{{Name: "h", Memory: 100}}, list)
	if err != nil {
		t.Fatal(err)
	}
	ledger := fleet.NewLedger(table)
	core, err := router.New(router.Config{Ledger: ledger, Fallback: anyUp{}, Balancer: balance.SmallestBatch{}})
	if err != nil {
		t.Fatal(err)
	}
	busy := signals.NewBusy(ledger, signals.BusyOptions{})
	rule, err := layouts.Parse("worth:0.002,5,20,1")
	if err != nil {
		t.Fatal(err)
	}
	g.placed, err = control.NewPlacement(control.PlacementOptions{Ledger: ledger, Busy: busy, Rule: "worth", Log: slog.New(slog.NewTextHandler(&g.log, nil)), Layouts: layouts.Options{
		Rule: rule, Shares: []float64{1}, Shadow: shadow, Rest: func(int) fleet.State { return fleet.Warm },
		Work: layouts.Work{Rate: func(r, _ int, _ float64) float64 { return []float64{6, 1, 12}[r] }, Duty: func(int) float64 { return 0 }},
	}})
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Metrics, c.Gauges.Interval, c.Health.ProbeModels = config.MetricsOpen, 0, false
	g.server, err = serving.New(serving.Options{Config: c, Router: core, Busy: busy, AdminToken: "a-token-of-enough-characters", Backends: backends, Modules: []serving.Module{g.placed}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.server.Drain(); g.server.Close() })
	return g
}

// load has so many requests a second come, and returns how many were not answered.
func (g *sleepers) load(rate float64, d time.Duration) (failed int) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Duration(float64(time.Second) / rate)) {
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"model":"auto","messages":[{"role":"user","content":"hi"}]}`))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if g.server.Handler().ServeHTTP(w, r); w.Code != http.StatusOK {
			failed++
		}
	}
	return failed
}

// asleep lists which engines sleep.
func (g *sleepers) asleep() (list [3]bool) {
	for i, e := range g.engines {
		list[i] = e.sleeps()
	}
	return list
}

// TestSizesSleepByTheLoad: engines are put to sleep and woken as the load changes, no request fails, and operators see
// since when and why a size sleeps.
func TestSizesSleepByTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSleepers(t, false)
		for _, x := range []struct {
			rate float64
			want [3]bool
		}{{2, [3]bool{false, false, true}}, {11, [3]bool{true, true, false}}, {2, [3]bool{false, false, true}}, {11, [3]bool{true, true, false}}} {
			if failed := g.load(x.rate, time.Minute); g.asleep() != x.want || failed > 0 {
				t.Errorf("at %v requests/s %v sleep, want %v; %d requests failed", x.rate, g.asleep(), x.want, failed)
			}
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "http://localhost/admin/placement", nil)
		r.Header.Set("Authorization", "Bearer a-token-of-enough-characters")
		g.server.AdminHandler().ServeHTTP(w, r)
		for _, want := range []string{`"layout":"small-more"`, `{"name":"large@h","up":false,"why":"not up since 00:0`, `requests/s are expected, of which each gains 0.`, `; with it a request would lose 0.`} {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("the endpoint has no %s: %s", want, w.Body)
			}
		}
		w = httptest.NewRecorder()
		g.server.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		for _, want := range []string{`gearshift_placement_up{replica="large@h"} 0`, `gearshift_placement_up{replica="small-more@h"} 1`, "gearshift_placement_changes_total 3"} {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("the metrics have no %s", want)
			}
		}
		if want := `msg="a host changes its layout" host=h from="small + large" to=small-more reason=`; !strings.Contains(g.log.String(), want) {
			t.Errorf("the log has no %s", want)
		}
	})
}

// TestAShadowChangesNothing: what would be done is logged and counted, and no engine is asked for it.
func TestAShadowChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSleepers(t, true)
		failed := g.load(11, time.Minute)
		s := g.placed.Situation()
		if want := [3]bool{false, false, true}; g.asleep() != want || failed > 0 || !s.Shadow || s.Changes != 1 || !strings.Contains(g.log.String(), "a host would change its layout") {
			t.Errorf("%v sleep, want %v; %d requests failed; %+v", g.asleep(), want, failed, s)
		}
	})
}
