package serving_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/config"
	"gearshift/serving/engines/agents"
)

// loader is an engine with a repository of one model, in memory: Triton's, or vLLM's
// sleep mode. It answers chats while it is ready.
type loader struct {
	base  *url.URL
	takes time.Duration // a load, and a chat
	wakes time.Duration // a wake
	mu    sync.Mutex
	state string // READY, UNAVAILABLE or LOADING
	fault string // of loads
	dead  bool
	dies  bool          // in the next load
	slow  time.Duration // before the index
	asked int           // requests
}

func newLoader(address, state string) *loader {
	base, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	return &loader{base: base, takes: 2 * time.Second, state: state}
}

// Base implements [engines.Server].
func (e *loader) Base() *url.URL { return e.base }

// Get implements [engines.Server].
func (e *loader) Get(ctx context.Context, path string) (*http.Response, error) {
	return e.Ask(ctx, http.MethodGet, path, nil, nil)
}

// Ask implements [agents.Engine].
func (e *loader) Ask(ctx context.Context, method, path string, _ http.Header, body []byte) (*http.Response, error) {
	if e.gone() {
		return nil, errors.New("connection refused")
	}
	w := httptest.NewRecorder()
	e.serve(w, httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(string(body))))
	if e.gone() {
		return nil, io.ErrUnexpectedEOF
	}
	return w.Result(), nil
}

// RoundTrip implements [http.RoundTripper].
func (e *loader) RoundTrip(r *http.Request) (*http.Response, error) {
	if e.gone() {
		return nil, errors.New("connection refused")
	}
	e.mu.Lock()
	e.asked++
	e.mu.Unlock()
	if e.is() != "READY" {
		return reply(http.StatusNotFound, jsonType, io.NopCloser(strings.NewReader(`{"error":{"message":"the model is not loaded","param":"model"}}`))), nil
	}
	select {
	case <-time.After(e.takes):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return reply(http.StatusOK, jsonType, io.NopCloser(strings.NewReader(fine))), nil
}

func (e *loader) gone() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dead
}

func (e *loader) is() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state
}

func (e *loader) become(state string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state = state
}

func (e *loader) serve(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == "/v2/repository/index":
		select {
		case <-time.After(e.slow):
		case <-r.Context().Done():
			return
		}
		_ = json.NewEncoder(w).Encode([]map[string]string{{"name": "small", "state": e.is()}})
	case strings.HasSuffix(path, "/unload"):
		e.become("UNAVAILABLE")
	case strings.HasSuffix(path, "/load"):
		e.load(w, r.Context())
	case path == "/is_sleeping":
		_ = json.NewEncoder(w).Encode(map[string]bool{"is_sleeping": e.is() != "READY"})
	case path == "/sleep":
		e.become("ASLEEP")
	case path == "/wake_up":
		select {
		case <-time.After(e.wakes):
			e.become("READY")
		case <-r.Context().Done():
		}
	case path == "/health":
	default:
		http.NotFound(w, r)
	}
}

func (e *loader) load(w http.ResponseWriter, ctx context.Context) {
	e.mu.Lock()
	fault, dies := e.fault, e.dies
	e.mu.Unlock()
	if fault != "" {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": fault})
		return
	}
	e.become("LOADING")
	select {
	case <-time.After(e.takes):
	case <-ctx.Done():
		return
	}
	if dies {
		e.mu.Lock()
		e.dead = true
		e.mu.Unlock()
		return
	}
	e.become("READY")
}

// drivenBy has the first replica be of the engine, by the dialect.
func drivenBy(t *testing.T, e *loader, dialect string) func(*serving.Options) {
	d, err := agents.DialectNamed(dialect)
	if err != nil {
		t.Fatal(err)
	}
	return func(o *serving.Options) {
		o.Config.Gauges.Interval = 0
		o.Config.Health.ProbeModels = false
		o.Backends[smallOnA] = serving.Backend{Transport: e, Lifecycle: d, Model: "small"}
	}
}

// stands checks what the admin API says of a replica's lifecycle.
func (g *rig) stands(t *testing.T, replica int, want string) {
	t.Helper()
	synctest.Wait()
	s := g.Status().Replicas[replica]
	got := s.Lifecycle.State
	if s.Lifecycle.Doing != "" {
		got += " " + s.Lifecycle.Doing + " to " + s.Lifecycle.Target
	}
	if got != want {
		t.Errorf("%s is %s, want %s", s.Name, got, want)
	}
}

// ordered gives an order to the first replica, and checks its status and its words.
func (g *rig) ordered(t *testing.T, order string, status int, want string) {
	t.Helper()
	w := g.order("POST", "/admin/replicas/small@a/"+order, "")
	text := w.Body.String()
	if status >= 400 {
		text, _, _, _ = readError(t, w.Body.Bytes())
		if strings.Contains(text, "\n") {
			t.Errorf("%s: %q is not one line", order, text)
		}
	}
	if w.Code != status || !strings.Contains(text, want) {
		t.Errorf("%s: status %d, %s; want %d, %s", order, w.Code, text, status, want)
	}
}

// A replica is unloaded once what is in flight on it has ended, and loaded again: others
// answer in between, and none of the requests is lost.
func TestUnloadAndLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newLoader("http://a", "READY")
		g := newRig(t, takes(time.Second), withToken, drivenBy(t, e, "triton"))
		synctest.Wait()
		answered := make(chan string, 1)
		go func() {
			w := g.do("POST", chat, ask)
			answered <- fmt.Sprint(w.Code, " ", w.Header().Get("X-Gearshift-Replica"))
		}()
		time.Sleep(time.Second)
		g.stands(t, smallOnA, "up")
		g.ordered(t, "unload", http.StatusAccepted, `"state":"draining"`)
		g.stands(t, smallOnA, "draining draining to cold")
		if w := g.do("POST", chat, ask); w.Code != http.StatusOK || w.Header().Get("X-Gearshift-Replica") != "small@b" {
			t.Errorf("while it drains: status %d by %s", w.Code, w.Header().Get("X-Gearshift-Replica"))
		}
		if got := <-answered; got != "200 small@a" {
			t.Errorf("the request in flight: %s, want its answer by small@a", got)
		}
		time.Sleep(time.Second)
		g.stands(t, smallOnA, "cold")
		if e.is() != "UNAVAILABLE" {
			t.Errorf("the engine has the model %s", e.is())
		}
		g.ordered(t, "unload", http.StatusOK, `"state":"cold"`) // again
		g.ordered(t, "load", http.StatusAccepted, `"target":"up"`)
		time.Sleep(time.Second)
		g.stands(t, smallOnA, "loading load to up")
		g.ordered(t, "load", http.StatusConflict, "small@a is being loaded already; wait until that has ended")
		g.ordered(t, "unload", http.StatusConflict, "small@a is being loaded already")
		time.Sleep(2 * time.Second)
		g.stands(t, smallOnA, "up")
		g.ordered(t, "load", http.StatusOK, `"state":"up"`)
		if w := g.do("POST", chat, ask); w.Header().Get("X-Gearshift-Replica") != "small@a" {
			t.Errorf("after the load answered by %s", w.Header().Get("X-Gearshift-Replica"))
		}
		for name, want := range map[string]string{
			`gearshift_replica_actions_total{action="load",replica="small@a",result="success"}`:   "1",
			`gearshift_replica_lifecycle{replica="small@a",state="up",variant="small"}`:           "1",
			`gearshift_replica_lifecycle{replica="small@a",state="cold",variant="small"}`:         "0",
			`gearshift_replica_action_seconds_count{action="load"}`:                               "1",
			`gearshift_replica_actions_total{action="unload",replica="small@a",result="success"}`: "1",
		} {
			if got := g.metric(t, name); got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
	})
}

// With wait, the answer comes once the order has been followed, or says why it was not.
func TestOrdersThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newLoader("http://a", "UNAVAILABLE")
		g := newRig(t, takes(time.Second), withToken, drivenBy(t, e, "triton"))
		g.stands(t, smallOnA, "cold")
		began := time.Now()
		g.ordered(t, "load?wait=500ms", http.StatusAccepted, `"doing":"load"`)
		if took := time.Since(began); took != 500*time.Millisecond {
			t.Errorf("the answer came after %v", took)
		}
		time.Sleep(2 * time.Second)
		g.ordered(t, "unload?wait", http.StatusOK, `"state":"cold"`)
		e.fault = "model.onnx: protobuf parsing failed"
		g.ordered(t, "load?wait=true", http.StatusBadGateway, "small@a was not loaded: the engine answers 400: model.onnx: protobuf parsing failed")
		g.stands(t, smallOnA, "cold")
		for query, want := range map[string]string{
			"load?wait=soon": `wait "soon": want nothing, true, false, or a time such as 30s`, "sleep?level=deep": `level "deep": want 1 or 2`,
			"load?level=2": `unknown parameter "level"`,
		} {
			g.ordered(t, query, http.StatusBadRequest, want)
		}
	})
}

// Each bad order is one clear line, and the fleet is what it says it is.
func TestBadLifecycleOrders(t *testing.T) {
	bad := func(name, dialect, state string, f func(t *testing.T, g *rig, e *loader)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newLoader("http://a", state)
				g := newRig(t, takes(time.Second), withToken, drivenBy(t, e, dialect))
				synctest.Wait()
				f(t, g, e)
			})
		})
	}
	bad("of a model that is not there", "triton", "UNAVAILABLE", func(t *testing.T, g *rig, e *loader) {
		e.fault = `failed to load "small": there is no model "small" in the repository; there is large`
		g.ordered(t, "load?wait", http.StatusBadGateway, `small@a was not loaded: the engine answers 400: failed to load "small": there is no model`)
		g.stands(t, smallOnA, "cold")
		if got := g.Status().Replicas[smallOnA].Lifecycle.Error; !strings.Contains(got, "there is no model") {
			t.Errorf("its status says %q", got)
		}
	})
	bad("the engine dies", "triton", "UNAVAILABLE", func(t *testing.T, g *rig, e *loader) {
		e.dies = true
		g.ordered(t, "load?wait", http.StatusBadGateway, "small@a was not loaded: the engine is gone: unexpected EOF")
		time.Sleep(10 * time.Second) // for probes
		g.stands(t, smallOnA, "down")
		if placed := g.core.Ledger().Placed(smallOnA); placed != fleet.Cold {
			t.Errorf("it is placed %v", placed)
		}
	})
	bad("of a sleep that the engine does not know", "triton", "READY", func(t *testing.T, g *rig, _ *loader) {
		g.ordered(t, "sleep", http.StatusUnprocessableEntity, "triton cannot put a model to sleep; it can load and unload")
		g.stands(t, smallOnA, "up")
	})
	bad("of an unload by vLLM", "vllm", "READY", func(t *testing.T, g *rig, _ *loader) {
		g.ordered(t, "unload", http.StatusUnprocessableEntity, "vLLM cannot unload a model; it can sleep")
		g.ordered(t, "sleep?level=7", http.StatusUnprocessableEntity, "vLLM has no sleep level 7")
		g.ordered(t, "sleep?wait", http.StatusOK, `"state":"warm"`)
		g.ordered(t, "wake?wait", http.StatusOK, `"state":"up"`)
	})
	bad("of what is loading, begun from outside", "triton", "LOADING", func(t *testing.T, g *rig, _ *loader) {
		g.ordered(t, "load", http.StatusConflict, "small@a is loading, begun from outside; wait until that has ended")
		g.stands(t, smallOnA, "loading")
	})
	bad("of a replica that does not end its requests", "triton", "READY", func(t *testing.T, g *rig, e *loader) {
		e.takes = time.Hour
		go g.do("POST", chat, ask)
		synctest.Wait()
		g.ordered(t, "unload?wait", http.StatusBadGateway, "small@a was not unloaded: 1 of its requests have not ended after 2m0s")
		g.stands(t, smallOnA, "up")
		time.Sleep(time.Hour)
	})
	bad("of one that nothing drives", "triton", "READY", func(t *testing.T, g *rig, _ *loader) {
		w := g.order("POST", "/admin/replicas/large@a/load", "")
		message, _, _, code := readError(t, w.Body.Bytes())
		if w.Code != http.StatusUnprocessableEntity || code != "unsupported_action" ||
			message != "nothing drives the engine of replica large@a: set serving.upstreams.large@a.lifecycle to gearshift, llamacpp, ollama, triton or vllm" {
			t.Errorf("status %d, %s: %s", w.Code, code, message)
		}
		g.stands(t, largeA, "up")
	})
}

// A load that does not fit beside what is loaded is refused before its engine is asked,
// with what is missing; once there is room it is followed.
func TestALoadBeyondMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const gib = 1 << 30
		replica := func(name string, variant int, initial fleet.State) fleet.Replica {
			return fleet.Replica{Name: name, Variant: variant, Memory: int64(4+2*variant) * gib, Initial: initial}
		}
		table, err := fleet.NewTable(testTable(t).Tasks, []fleet.Variant{{Name: "small"}, {Name: "large"}},
			[]fleet.Host{{Name: "a", Memory: 9 * gib}}, []fleet.Replica{replica("small@a", small, fleet.Cold), replica("large@a", large, fleet.Up)})
		if err != nil {
			t.Fatal(err)
		}
		core, err := router.New(router.Config{Ledger: fleet.NewLedger(table), Fallback: fallback{}, Balancer: emptiest{}})
		if err != nil {
			t.Fatal(err)
		}
		cold, loaded := newLoader("http://a", "UNAVAILABLE"), newLoader("http://b", "READY")
		g := newRig(t, nil, withToken, func(o *serving.Options) {
			o.Router, o.Backends = core, make([]serving.Backend, 2)
			o.Config.Gauges.Interval, o.Config.Health.ProbeModels = 0, false
			d, err := agents.DialectNamed("triton")
			if err != nil {
				t.Fatal(err)
			}
			o.Backends[0] = serving.Backend{Transport: cold, Lifecycle: d, Model: "small"}
			o.Backends[1] = serving.Backend{Transport: loaded, Lifecycle: d, Model: "small"}
		})
		synctest.Wait()
		g.ordered(t, "load", http.StatusInsufficientStorage, "host a has 9 GiB, 3 GiB of them free; small takes 4 GiB: 1 GiB are missing")
		g.stands(t, 0, "cold")
		if cold.is() != "UNAVAILABLE" {
			t.Errorf("the engine was asked, and has the model %s", cold.is())
		}
		if w := g.order("POST", "/admin/replicas/large@a/unload?wait", ""); w.Code != http.StatusOK {
			t.Fatalf("the unload: status %d, %s", w.Code, w.Body)
		}
		g.ordered(t, "load?wait", http.StatusOK, `"state":"up"`)
		g.stands(t, 0, "up")
		g.stands(t, 1, "cold")
	})
}

// A change of an engine from outside is noticed, at a request that misses its model at
// once, and the policy's fleet is the true one.
func TestAnotherHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newLoader("http://a", "READY")
		g := newRig(t, takes(time.Second), withToken, drivenBy(t, e, "triton"))
		synctest.Wait()
		e.become("UNAVAILABLE")
		if w := g.do("POST", chat, ask); w.Code != http.StatusOK || w.Header().Get("X-Gearshift-Replica") != "small@b" {
			t.Errorf("status %d by %s, want the answer of the other", w.Code, w.Header().Get("X-Gearshift-Replica"))
		}
		g.stands(t, smallOnA, "cold")
		e.become("READY")
		time.Sleep(config.Default().Lifecycle.PollInterval)
		g.stands(t, smallOnA, "up")
		if !strings.Contains(g.logs.String(), "the engine's state was changed from outside") {
			t.Errorf("no line of it:\n%s", g.logs)
		}
	})
}

// A router that starts believes its engines, and not the scenario, before it sends any request: an earlier
// one may have moved models. An engine that does not answer holds the start up for half a second at most.
func TestEnginesAreAskedFirst(t *testing.T) {
	for name, c := range map[string]struct {
		slow time.Duration
		most time.Duration
	}{"they answer": {50 * time.Millisecond, 60 * time.Millisecond}, "one hangs": {time.Minute, asking}} {
		synctest.Test(t, func(t *testing.T) {
			moved := newLoader("http://a", "UNAVAILABLE")
			moved.slow = c.slow
			g := newRig(t, takes(0), withToken, drivenBy(t, moved, "triton"))
			l, stop, ended := serve(t, g)
			began := time.Now()
			response, err := l.Client().Post("http://router"+chat, jsonType, strings.NewReader(ask))
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if took := time.Since(began); took > c.most {
				t.Errorf("%s: answered after %v, want %v", name, took, c.most)
			}
			if at := response.Header.Get("X-Gearshift-Replica"); c.slow < asking && (response.StatusCode != http.StatusOK || at == "small@a" || moved.asked > 0) {
				t.Errorf("%s: status %d by %s, and %d requests at an engine without the model", name, response.StatusCode, at, moved.asked)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// asking bounds how long a router waits for its engines at the start.
const asking = 500 * time.Millisecond
