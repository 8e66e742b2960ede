package failover_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"gearshift/serving/engines/agents"
)

const (
	jsonType = "application/json"
	fine     = `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a b c d"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":4,"total_tokens":5}}`
	token    = "a-token-of-enough-characters"
	// fleetToken admits the agents.
	fleetToken = "a-token-that-the-fleet-shares"
)

// engine is a gearshift engine in memory: models that load, an agent that reports, and ways to die.
type engine struct {
	host string
	base *url.URL

	mu          sync.Mutex
	state       map[string]string // of models: READY, LOADING or UNAVAILABLE
	takes       map[string]time.Duration
	dead        bool // the process is gone
	frozen      bool // it stands still: nothing breaks
	shut        bool // nothing listens, though its agent reports
	quieted     bool // its agent does not report, though it answers
	thawed      chan struct{}
	incarnation uint64
	unloading   time.Duration
	epoch       uint64 // the newest that an order came with
	orders      []string
	served      int
}

func newEngine(host string, n int, loaded ...string) *engine {
	base, _ := url.Parse("http://" + host + ":9001")
	e := &engine{host: host, base: base, state: map[string]string{}, takes: map[string]time.Duration{}, thawed: make(chan struct{}), incarnation: uint64(100 + n)}
	for _, m := range models {
		e.state[m], e.takes[m] = "UNAVAILABLE", 2*time.Second
	}
	e.takes["small"] = 200 * time.Millisecond
	for _, m := range loaded {
		e.state[m] = "READY"
	}
	return e
}

// kill ends the process; start starts another, with nothing loaded.
func (e *engine) kill() { e.mu.Lock(); e.dead = true; e.mu.Unlock() }
func (e *engine) start() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dead, e.incarnation = false, e.incarnation+1000
	for m := range e.state {
		e.state[m] = "UNAVAILABLE"
	}
}

func (e *engine) freeze() {
	e.mu.Lock()
	e.frozen, e.thawed = true, make(chan struct{})
	e.mu.Unlock()
}

func (e *engine) thaw() {
	e.mu.Lock()
	e.frozen = false
	close(e.thawed)
	e.mu.Unlock()
}

func (e *engine) quiet() { e.mu.Lock(); e.quieted = true; e.mu.Unlock() }

// gone reports whether nothing listens.
func (e *engine) gone() bool { e.mu.Lock(); defer e.mu.Unlock(); return e.dead || e.shut }

func (e *engine) loaded() (list []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for m, s := range e.state {
		if s == "READY" {
			list = append(list, m)
		}
	}
	slices.Sort(list)
	return list
}

func (e *engine) set(model, state string) { e.mu.Lock(); e.state[model] = state; e.mu.Unlock() }

// there waits as long as the engine stands still, and reports why it cannot be asked.
func (e *engine) there(ctx context.Context) error {
	for {
		e.mu.Lock()
		dead, frozen, thawed := e.dead || e.shut, e.frozen, e.thawed
		e.mu.Unlock()
		switch {
		case dead:
			return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		case !frozen:
			return nil
		}
		select {
		case <-thawed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Base implements [engines.Server].
func (e *engine) Base() *url.URL { return e.base }

// Get implements [engines.Server].
func (e *engine) Get(ctx context.Context, path string) (*http.Response, error) {
	return e.Ask(ctx, http.MethodGet, path, nil, nil)
}

// Ask implements [agents.Engine].
func (e *engine) Ask(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	if err := e.there(ctx); err != nil {
		return nil, err
	}
	r := httptest.NewRequestWithContext(ctx, method, path, bytes.NewReader(body))
	for name, values := range header {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	e.serve(w, r)
	if err := e.there(ctx); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return w.Result(), nil
}

// RoundTrip implements [http.RoundTripper]: an answer takes 20 ms.
func (e *engine) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := e.there(r.Context()); err != nil {
		return nil, err
	}
	text, _ := io.ReadAll(r.Body)
	var ask struct{ Model string }
	_ = json.Unmarshal(text, &ask)
	if !slices.Contains(e.loaded(), ask.Model) {
		return answer(http.StatusNotFound, `{"error":{"message":"the model is not loaded","param":"model"}}`), nil
	}
	select {
	case <-time.After(20 * time.Millisecond):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if err := e.there(r.Context()); err != nil {
		if r.Context().Err() != nil {
			return nil, err
		}
		return nil, io.ErrUnexpectedEOF
	}
	e.mu.Lock()
	e.served++
	e.mu.Unlock()
	return answer(http.StatusOK, fine), nil
}

func answer(status int, text string) *http.Response {
	return &http.Response{StatusCode: status, ContentLength: -1, Header: http.Header{"Content-Type": {jsonType}}, Body: io.NopCloser(strings.NewReader(text))}
}

func (e *engine) serve(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/v2/repository/")
	switch {
	case path == "index":
		var list []map[string]string
		e.mu.Lock()
		for m, s := range e.state {
			list = append(list, map[string]string{"name": m, "state": s, "reason": "unloaded"})
		}
		e.mu.Unlock()
		_ = json.NewEncoder(w).Encode(list)
	case strings.HasPrefix(path, "models/"):
		model, verb, _ := strings.Cut(strings.TrimPrefix(path, "models/"), "/")
		e.order(w, r, model, verb)
	case r.URL.Path == "/health":
	default:
		http.NotFound(w, r)
	}
}

func (e *engine) order(w http.ResponseWriter, r *http.Request, model, verb string) {
	epoch, _ := strconv.ParseUint(r.Header.Get(agents.HeaderEpoch), 10, 64)
	e.mu.Lock()
	old := epoch < e.epoch
	e.epoch = max(e.epoch, epoch)
	e.orders = append(e.orders, verb+" "+model)
	takes, unloading := e.takes[model], e.unloading
	double := verb == "load" && e.state[model] != "UNAVAILABLE"
	e.mu.Unlock()
	switch {
	case old:
		w.WriteHeader(http.StatusConflict)
		_, _ = fmt.Fprintf(w, `{"error":{"message":"the order is of epoch %d, and one of a newer epoch has been seen"}}`, epoch)
	case verb == "unload":
		time.Sleep(unloading)
		e.set(model, "UNAVAILABLE")
	case double:
	default:
		e.set(model, "LOADING")
		select {
		case <-time.After(takes):
			e.set(model, "READY")
		case <-r.Context().Done():
			e.set(model, "UNAVAILABLE")
		}
	}
}

// agent reports to the router that to returns, until the context ends.
func (e *engine) agent(ctx context.Context, to func() http.Handler) {
	registered, sequence, incarnation, last := false, uint64(0), uint64(0), ""
	for range time.Tick(20 * time.Millisecond) {
		if ctx.Err() != nil {
			return
		}
		e.mu.Lock()
		silent, now := e.dead || e.frozen || e.quieted, e.incarnation
		e.mu.Unlock()
		if now != incarnation {
			incarnation, registered, sequence = now, false, 0
		}
		router := to()
		if silent || router == nil {
			continue
		}
		list := e.loaded()
		if !registered {
			w := post(router, agents.AgentPath(e.host), agents.Registration{Version: "test", Protocol: agents.Protocol, Incarnation: now, URL: e.base.String(), Loaded: list})
			registered, last = w.Code == http.StatusOK, fmt.Sprint(list)
			continue
		}
		sequence++
		pulse := agents.Pulse{Incarnation: now, Sequence: sequence}
		if text := fmt.Sprint(list); text != last {
			pulse.Loaded, last = &list, text
		}
		registered = post(router, agents.HeartbeatPath(e.host), pulse).Code == http.StatusNoContent
	}
}

// post asks an admin handler.
func post(h http.Handler, path string, body any) *httptest.ResponseRecorder {
	text, _ := json.Marshal(body)
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(text))
	r.Host = "127.0.0.1:8081" // by which an admin listener on this machine is known
	r.Header.Set("Authorization", "Bearer "+token)
	if strings.HasPrefix(path, "/admin/agents/") {
		r.Header.Set("Authorization", "Bearer "+fleetToken)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
