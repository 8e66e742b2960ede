package app

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/serving/peers"
)

// sharingRouter assembles one of the routers of the URLs, whose admin listener is the handler.
func sharingRouter(t *testing.T, urls []string, admin *atomic.Pointer[http.Handler]) *assembly {
	t.Helper()
	text := fmt.Sprintf(`
tasks: [{name: chat, deadline_ms: 40, quality: {small: 1}}]
variants: [{name: small}]
hosts: [{name: gpu, memory: 24GiB}]
replicas: [{variant: small, hosts: [gpu], memory: 90%%}]
profiles:
  - {variant: small, launch_floor_ms: 3.24, weights_ms: 0.6, growth_per_sequence: 0.003, token_ms: 0.0035, context_token_ms: 0.0001,
     overhead_ms: 1.5, sequence_ms: 0.2, contention: 0.15, weight_bytes: 250000000, activation_bytes: 250000000, kv_bytes_per_token: 36864}
serving:
  routers: 2
  admin: {addr: "127.0.0.1:8081"}
  peers: {urls: ["%s"], poll: 20ms}
`, strings.Join(urls, `", "`))
	s, err := scenario.Parse("peers.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Scenario: "peers.yaml", Text: []byte(text), Policy: "least-work", Engine: "native", NoTuning: true}
	x := &assembly{
		o: o, s: s, text: []byte(text), config: o.config(s), log: slog.New(slog.NewTextHandler(io.Discard, nil)), backends: NewBackends,
		sources: usualSources, adminToken: "a-token-of-tests", fleetToken: "the-fleet's-token-of-tests",
	}
	t.Cleanup(x.close)
	if _, err := x.assemble(); err != nil {
		t.Fatal(err)
	}
	h := x.server.AdminHandler()
	admin.Store(&h)
	return x
}

// Two routers assembled from a scenario exchange their requests, and refuse other clients.
func TestAssembledRoutersShare(t *testing.T) {
	var urls []string
	var admins [2]atomic.Pointer[http.Handler]
	for i := range admins {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if h := admins[i].Load(); h != nil {
				(*h).ServeHTTP(w, r)
				return
			}
			http.Error(w, "not yet", http.StatusServiceUnavailable)
		}))
		t.Cleanup(server.Close)
		urls = append(urls, server.URL)
	}
	own, other := sharingRouter(t, urls, &admins[0]), sharingRouter(t, urls, &admins[1])
	defer own.peers.Begin(t.Context())()
	defer other.peers.Begin(t.Context())()
	ledger := other.routing.core.Ledger()
	lease, ok := ledger.Begin(0, 0)
	if !ok {
		t.Fatal("no place")
	}
	sees := func(inFlight int32) {
		t.Helper()
		look, late := time.NewTicker(5*time.Millisecond), time.After(20*time.Second)
		defer look.Stop()
		for {
			var v fleet.View
			own.routing.core.Ledger().View(0, &v)
			if v.InFlight[0] == inFlight {
				return
			}
			select {
			case <-look.C:
			case <-late:
				t.Fatalf("the router sees %d requests in flight, not %d", v.InFlight[0], inFlight)
			}
		}
	}
	sees(1)
	lease.End()
	sees(0)
	for token, want := range map[string]int{"": http.StatusUnauthorized, "a-token-of-tests": http.StatusUnauthorized, "the-fleet's-token-of-tests": http.StatusOK} {
		r := httptest.NewRequest(http.MethodGet, peers.Path, nil)
		if r.Host = "127.0.0.1:8081"; token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		if own.server.AdminHandler().ServeHTTP(w, r); w.Code != want {
			t.Errorf("with token %q the share is answered with %d, want %d: %s", token, w.Code, want, w.Body)
		}
	}
}
