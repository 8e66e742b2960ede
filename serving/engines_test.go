package serving_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/config"
)

// asked is a backend that can be asked, whose answers the test may change.
type asked struct {
	base    string
	down    atomic.Bool // refuses connections
	hangs   atomic.Bool // takes requests and answers nothing
	gone    atomic.Bool // there is nobody: nothing comes back
	unnamed atomic.Bool // nobody knows its address now
	metrics atomic.Pointer[string]
	models  atomic.Pointer[string] // its list of models; empty if nil
	lists   atomic.Int32
	absent  atomic.Bool // has no path, as behind a wrong base
	probes  atomic.Int32
}

func (e *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	if e.down.Load() {
		return nil, refused()
	}
	if e.unnamed.Load() {
		return nil, unnamed()
	}
	if e.hangs.Load() || e.gone.Load() {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return takes(10 * time.Millisecond)(r)
}

// unnamed is what is said of a server whose name cannot be looked up now.
func unnamed() error { return &net.OpError{Op: "dial", Err: &net.DNSError{IsTemporary: true}} }

func (e *asked) Base() *url.URL {
	base, err := url.Parse(e.base)
	if err != nil {
		panic(err)
	}
	return base
}

func (e *asked) Get(ctx context.Context, path string) (*http.Response, error) {
	switch {
	case e.down.Load():
		return nil, refused()
	case e.gone.Load():
		<-ctx.Done()
		return nil, ctx.Err()
	case e.unnamed.Load():
		return nil, unnamed()
	}
	if e.absent.Load() {
		return reply(http.StatusNotFound, jsonType, http.NoBody), nil
	}
	if path == "/health" { // a hung engine says that it is well
		e.probes.Add(1)
		return reply(http.StatusOK, jsonType, io.NopCloser(strings.NewReader("{}"))), nil
	}
	if path == "/v1/models" {
		e.lists.Add(1)
		text := `{"object":"list","data":[]}`
		if list := e.models.Load(); list != nil {
			text = *list
		}
		return reply(http.StatusOK, jsonType, io.NopCloser(strings.NewReader(text))), nil
	}
	page := e.metrics.Load()
	if page == nil {
		return reply(http.StatusNotFound, jsonType, http.NoBody), nil
	}
	return reply(http.StatusOK, "text/plain", io.NopCloser(strings.NewReader(*page))), nil
}

// newEngines is a rig whose replicas are engines: small@a and large@a on the same
// machine, small@b on another.
func newEngines(t *testing.T, change ...func(*serving.Options)) (*rig, []*asked) {
	t.Helper()
	engines := []*asked{{base: "http://a:8000/"}, {base: "http://b:8000/"}, {base: "http://a:8001/"}}
	g := newRig(t, nil, append([]func(*serving.Options){func(o *serving.Options) {
		for i, e := range engines {
			o.Backends[i].Transport = e
		}
	}}, change...)...)
	return g, engines
}

// states of the replicas, in the table's order.
func (g *rig) states() string {
	var list []string
	for _, r := range g.Status().Replicas {
		state := r.State
		if r.Why != "" {
			state += "/" + r.Why
		}
		list = append(list, state)
	}
	return strings.Join(list, " ")
}

func (g *rig) wantStates(t *testing.T, want string) {
	t.Helper()
	synctest.Wait()
	if got := g.states(); got != want {
		t.Errorf("states %s, want %s", got, want)
	}
}

func (g *rig) wantMetric(t *testing.T, line string) {
	t.Helper()
	if text := g.do("GET", "/metrics", "").Body.String(); !strings.Contains(text, line+"\n") {
		t.Errorf("no %s", line)
	}
}

func TestAHostThatDiesTakesItsReplicasAndBringsThemBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, engines := newEngines(t)
		time.Sleep(10 * time.Second)
		g.wantStates(t, "up up up")
		engines[0].down.Store(true)
		engines[2].down.Store(true)
		died := time.Now()
		for g.core.Ledger().InFlight() == 0 && g.Status().Replicas[smallOnA].Up {
			if w := g.do("POST", chat, ask); w.Code != http.StatusOK { // it moves to small@b
				t.Fatalf("status %d: %s", w.Code, w.Body)
			}
		}
		// large@a got no request: a probe asked after it.
		g.wantStates(t, "ejected/connect up ejected/connect")
		if took := time.Since(died); took > 200*time.Millisecond {
			t.Errorf("ejected after %v", took)
		}
		if w := g.do("POST", chat, `{"model":"large"}`); w.Code != http.StatusServiceUnavailable {
			t.Errorf("status %d for a variant that is gone", w.Code)
		}
		time.Sleep(time.Minute)
		g.wantStates(t, "ejected/connect up ejected/connect")
		engines[0].down.Store(false)
		engines[2].down.Store(false)
		time.Sleep(3 * time.Second)
		g.wantStates(t, "half_open/connect up half_open/connect")
		for range 2 {
			if w := g.do("POST", chat, `{"model":"large"}`); w.Code != http.StatusOK {
				t.Errorf("status %d on trial", w.Code)
			}
		}
		g.wantStates(t, "half_open/connect up slow_start/connect")
		time.Sleep(10 * time.Second)
		g.wantStates(t, "half_open/connect up up")
		g.wantMetric(t, `gearshift_replica_state{replica="small@a",state="half_open",variant="small"} 1`)
		g.wantMetric(t, `gearshift_replica_state{replica="small@a",state="up",variant="small"} 0`)
		g.wantMetric(t, `gearshift_ejections_total{reason="connect",replica="large@a",variant="large"} 1`)
		for _, words := range []string{"replica ejected", "replica on trial", "replica comes back", "replica up again"} {
			if !strings.Contains(g.logs.String(), words) {
				t.Errorf("the log does not say %q", words)
			}
		}
	})
}

// A machine without power says nothing. Whoever has no answer from there is answered
// elsewhere, long before the last timeout.
func TestWhatAVanishedHostHadIsTriedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, engines := newEngines(t, func(o *serving.Options) {
			o.Config.Retries = config.Retries{Max: 2, BudgetWindow: time.Second} // they cost none
		})
		time.Sleep(10 * time.Second)
		engines[0].gone.Store(true)
		engines[2].gone.Store(true)
		start := time.Now()
		w := g.do("POST", chat, ask)
		if took := time.Since(start); w.Code != http.StatusOK || w.Header().Get("X-Gearshift-Replica") != "small@b" || took > 15*time.Second {
			t.Errorf("status %d from %s after %v", w.Code, w.Header().Get("X-Gearshift-Replica"), took)
		}
		g.wantStates(t, "ejected/connect up ejected/connect")
		if !strings.Contains(g.logs.String(), "replica is gone") {
			t.Error("the log does not say so")
		}
		g.settled(t, "completed")
	})
}

// Nobody's address is known for a moment. The engines answer all the while.
func TestAHiccupOfTheResolverEjectsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, engines := newEngines(t)
		time.Sleep(10 * time.Second)
		for _, e := range engines {
			e.unnamed.Store(true)
		}
		for range 10 { // no kept connection is left for them
			g.do("POST", chat, ask)
		}
		time.Sleep(3 * time.Second)
		for _, e := range engines {
			e.unnamed.Store(false)
		}
		g.wantStates(t, "up up up")
		if strings.Contains(g.logs.String(), "ejected") {
			t.Error("some were ejected")
		}
	})
}

func TestReadinessFollowsTheEngines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, engines := newEngines(t)
		for _, e := range engines {
			e.down.Store(true)
		}
		time.Sleep(3 * time.Second)
		g.wantStates(t, "ejected/connect ejected/connect ejected/connect")
		if w := g.do("GET", "/readyz", ""); w.Code != http.StatusServiceUnavailable {
			t.Errorf("ready with status %d", w.Code)
		}
		engines[1].down.Store(false)
		time.Sleep(3 * time.Second)
		g.wantStates(t, "ejected/connect half_open/connect ejected/connect")
		if w := g.do("GET", "/readyz", ""); w.Code != http.StatusOK {
			t.Errorf("not ready with status %d, though one is on trial", w.Code)
		}
	})
}

// It says that it is well and idle, takes every request, and answers none.
func TestAReplicaThatLiesIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, engines := newEngines(t)
		idle := "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"
		engines[0].metrics.Store(&idle)
		engines[0].hangs.Store(true)
		ctx, giveUp := context.WithCancel(t.Context())
		defer giveUp()
		start := time.Now()
		for g.Status().Replicas[smallOnA].Up && time.Since(start) < time.Hour {
			go g.unread(ctx)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if took := time.Since(start); took > 40*time.Second {
			t.Errorf("found after %v", took)
		}
		g.wantStates(t, "ejected/silent up up")
		g.wantMetric(t, `gearshift_ejections_total{reason="silent",replica="small@a",variant="small"} 1`)
		giveUp()
		synctest.Wait()
	})
}

// unread sends a request until the context ends, and does not look at the answer.
func (g *rig) unread(ctx context.Context) {
	r, err := http.NewRequestWithContext(ctx, "POST", chat, strings.NewReader(ask))
	if err != nil {
		panic(err)
	}
	g.Handler().ServeHTTP(discard{}, r)
}

// discard is a client that does not look.
type discard struct{}

func (discard) Header() http.Header              { return http.Header{} }
func (discard) Write(p []byte) (int, error)      { return len(p), nil }
func (discard) WriteHeader(int)                  {}
func (discard) SetReadDeadline(time.Time) error  { return nil }
func (discard) SetWriteDeadline(time.Time) error { return nil }

// Leases of callers that dispatch by themselves show no progress, and no lack
// of it.
func TestParkedLeasesAreNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := newEngines(t)
		g.do("POST", "/v1/gearshift/route", "{}")
		for range 120 {
			g.do("POST", chat, `{"model":"large"}`)
			time.Sleep(time.Second)
		}
		g.wantStates(t, "up up up")
	})
}

func TestGaugesCorrectTheViewAndSayTheirAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, engines := newEngines(t)
		busy := "vllm:num_requests_running 1\nvllm:num_requests_waiting 1\n"
		engines[0].metrics.Store(&busy)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		var v fleet.View
		g.core.Ledger().View(0, &v)
		if v.InFlight[smallOnA] != 2 || !v.Available(smallOnA) || g.core.Ledger().InFlight() != 0 {
			t.Errorf("the view has %v in flight", v.InFlight)
		}
		one := g.Status().Replicas[smallOnA]
		if e := one.Gauges; e == nil || *e.Running != 1 || e.KVUse != nil || e.OthersInFlight != 2 || e.AgeS > 1.2 || e.Stale || one.InFlight != 0 {
			t.Errorf("status %+v of %+v", e, one)
		}
		if e := g.Status().Replicas[smallOnB].Gauges; e != nil {
			t.Errorf("gauges %+v of an engine that has none", e)
		}
		// What others do there sends requests elsewhere.
		if w := g.do("POST", chat, ask); w.Header().Get("X-Gearshift-Replica") != "small@b" {
			t.Errorf("went to %s", w.Header().Get("X-Gearshift-Replica"))
		}
		g.wantMetric(t, `gearshift_others_in_flight{replica="small@a",variant="small"} 2`)
		engines[0].metrics.Store(nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if g.core.Ledger().View(0, &v); v.InFlight[smallOnA] != 0 || !g.Status().Replicas[smallOnA].Gauges.Stale {
			t.Errorf("stale gauges still count: %v", v.InFlight)
		}
		if !strings.Contains(g.logs.String(), "engine gauges are stale") {
			t.Error("the log does not say so")
		}
		if !strings.Contains(g.do("GET", "/metrics", "").Body.String(), `gearshift_gauge_age_seconds{replica="small@a",variant="small"} `) {
			t.Error("no age among the metrics")
		}
	})
}

// Who dispatches requests himself tells of a replica's answers too.
func TestEndedLeasesBringAReplicaBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, engines := newEngines(t)
		time.Sleep(10 * time.Second)
		engines[2].down.Store(true)
		time.Sleep(10 * time.Second)
		g.wantStates(t, "up up ejected/connect")
		engines[2].down.Store(false)
		time.Sleep(3 * time.Second)
		g.wantStates(t, "up up half_open/connect")
		if err := g.core.SetPolicy(chooses(large)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			var out struct{ Lease, Replica string }
			w := g.do("POST", "/v1/gearshift/route", "{}")
			if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || out.Replica != "large@a" {
				t.Fatalf("%v: %s", err, w.Body)
			}
			time.Sleep(10 * time.Second)
			g.do("POST", "/v1/gearshift/route/"+out.Lease+"/end", `{"output_tokens":3}`)
		}
		g.wantStates(t, "up up slow_start/connect")
	})
}
