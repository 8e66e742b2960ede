package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gearshift/internal/scenario"
	"gearshift/serving"
	"gearshift/serving/admin/dashboard"
	"gearshift/serving/control/states"
)

// cameras is a fleet of two hosts with an application on each.
const cameras = `
tasks:
  - {name: door, total_ms: 100, rate: 4, primary: h1, quality: {small: 0.9, large: 1}}
  - {name: yard, total_ms: 100, rate: 2, primary: h2, quality: {small: 0.9, large: 1}}
variants: [{name: small, model: small}, {name: large, model: large}]
models:
  - {name: small, memory: 300MB, load_ms: 200}
  - {name: large, memory: 900MB, load_ms: 2000}
hosts:
  - {name: h1, site: a, memory: 2GB}
  - {name: h2, site: b, memory: 2GB}
profiles:
  - {variant: small, batch_ms: {1: 5, 4: 12}}
  - {variant: large, batch_ms: {1: 20, 4: 60}}
workload: {output_tokens: {distribution: none}}
failover: {headroom: 40%}
serving: {fallback: "slackfit:0.93"}
`

func parse(t *testing.T, text string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse("cameras.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Where the scenario has failover, the router holds the state file, and the page shows the applications.
func TestFailoverOfAScenario(t *testing.T) {
	s := parse(t, cameras)
	var logs bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logs, nil))
	core, err := NewCore(s, s.Serving.Fallback, log)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Scenario: "cameras.yaml", FailoverState: filepath.Join(t.TempDir(), "failover.db")}
	m, err := o.newFailover(s, core.Table(), stateFiles{}, log)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.newFailover(parse(t, cameras), core.Table(), stateFiles{}, log); !errors.Is(err, states.ErrHeld) {
		t.Errorf("a second one: %v, want that the file is held", err)
	}
	server, err := serving.New(serving.Options{
		Config: s.Serving.Config(), Router: core, Backends: make([]serving.Backend, len(core.Table().Replicas)),
		Modules: append(withFailover(modules(core.Table(), dashboard.About{}), m), m),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8081/admin/dashboard", nil)
	w := httptest.NewRecorder()
	server.AdminHandler().ServeHTTP(w, r)
	if text := w.Body.String(); !strings.Contains(text, `"active":"large@h1"`) || !strings.Contains(text, `"name":"yard"`) {
		t.Errorf("the page gets %s", text)
	}
	server.Close()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if m, err = o.newFailover(parse(t, cameras), core.Table(), stateFiles{}, log); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// The flag needs the section. What a router cannot do without its admin listener, or with others, is
// in the log.
func TestFailoverThatCannotBe(t *testing.T) {
	plain := tiny(t, "  backend: simulated", "  backend: simulated # as it is")
	o := Options{Scenario: "tiny", FailoverState: "failover.db"}
	_, err := o.newFailover(plain, plain.ServingTable(), stateFiles{}, slog.New(slog.DiscardHandler))
	if want := "--failover-state failover.db: tiny has no section failover; want one, or no such flag"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	for edit, want := range map[string]string{
		`serving: {admin: {addr: "off"}, `: "no agent can report",
		"serving: {routers: 2, ":           "only one of them may have the section failover",
	} {
		s := parse(t, strings.Replace(cameras, "serving: {", edit, 1))
		var logs bytes.Buffer
		m, err := (&Options{}).newFailover(s, s.ServingTable(), stateFiles{}, slog.New(slog.NewTextHandler(&logs, nil)))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil || !strings.Contains(logs.String(), want) {
			t.Errorf("%v; the log says %q, want %s", err, logs.String(), want)
		}
	}
}

// TestStatesOfAnElectedRouter: none of them may be in a file of its own, which another acting router would not have.
func TestStatesOfAnElectedRouter(t *testing.T) {
	const store = "etcd://127.0.0.1:1/mine"
	for _, o := range []Options{
		{Store: store, FailoverState: "one.db"}, {Store: store, RolloutState: "one.db"}, {State: store, RolloutState: "one.db"},
	} {
		x := assembly{o: o, s: parse(t, cameras), log: slog.New(slog.DiscardHandler)}
		if err := x.lead(); err == nil || !strings.Contains(err.Error(), "-state one.db: routers elect the one that acts at "+store) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	x := assembly{o: Options{Store: store, State: "all.db", RolloutState: "one.db"}, s: parse(t, cameras), log: slog.New(slog.DiscardHandler)}
	if err := x.lead(); err != nil || x.leads != nil {
		t.Errorf("a router with its states in files: %v", err)
	}
}

// TestOneStateFile: controllers of all kinds keep their states in the file of --state, and those of which a flag names
// another have that.
func TestOneStateFile(t *testing.T) {
	dir := t.TempDir()
	o := Options{State: filepath.Join(dir, "state.db"), RolloutState: dir + "/./state.db"}
	files := stateFiles{}
	for range 2 {
		if f := files.of(o.FailoverState, o.State); f == nil || f != files.of(o.RolloutState, o.State) || len(files) != 1 {
			t.Errorf("%d files: %v", len(files), files)
		}
	}
	if files.of("", "") != nil || files.of("other.db", o.State) == files.of(o.State) {
		t.Error("a file of its own is not one")
	}
	var said bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := Serve(ctx, Options{Scenario: "tiny", State: o.State, Policy: "slackfit", Engine: "native", Addr: "127.0.0.1:0", Admin: "off"}, &said)
	if err == nil || !strings.Contains(err.Error(), "tiny has no controller that keeps a state; want a section failover, rollout or serving.replicas, or no such flag") {
		t.Errorf("error %v", err)
	}
}
