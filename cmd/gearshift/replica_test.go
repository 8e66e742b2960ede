package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"gearshift/serving/admin/overview"
)

// repositoryAt is an inference server with a repository of models, as Triton has one: at
// the start all but the damaged ones are loaded.
func repositoryAt(t *testing.T, models, damaged []string) string {
	t.Helper()
	var mu sync.Mutex
	state := map[string]string{}
	for _, m := range models {
		state[m] = "READY"
	}
	for _, m := range damaged {
		state[m] = "UNAVAILABLE"
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v2/repository/index", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		list := []map[string]string{}
		for name, is := range state {
			list = append(list, map[string]string{"name": name, "state": is})
		}
		_ = json.NewEncoder(w).Encode(list)
	})
	mux.HandleFunc("POST /v2/repository/models/{model}/{order}", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		model := r.PathValue("model")
		switch {
		case r.PathValue("order") == "unload":
			state[model] = "UNAVAILABLE"
		case strings.Contains(strings.Join(damaged, " "), model):
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":"failed to load '%s': model.onnx is damaged"}`, model)
		default:
			state[model] = "READY"
		}
	})
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// An operator lists replicas, has them unloaded and loaded, and drains them; what goes
// wrong is one line and an exit code.
func TestReplicaOrders(t *testing.T) {
	url := repositoryAt(t, []string{"small"}, []string{"large"})
	file := filepath.Join(t.TempDir(), "mine.yaml")
	text := upstreamScenario(t, url, "{url:", "{lifecycle: triton, url:")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := steerTiny(t, "--scenario", file)
	admin := []string{"--admin", s.operators.url}
	do := func(want string, args ...string) {
		t.Helper()
		if out := succeed(t, append(append([]string{"replica"}, args...), admin...)...); !strings.Contains(out, want) {
			t.Errorf("%v: no %q in\n%s", args, want, out)
		}
	}
	bad := func(want string, args ...string) {
		t.Helper()
		fail(t, append(append([]string{"replica"}, args...), admin...), want)
	}
	var small, large string
	var list []overview.ReplicaStatus
	if err := json.Unmarshal([]byte(succeed(t, append([]string{"replica", "ls", "--format", "json"}, admin...)...)), &list); err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		switch {
		case r.Variant == "small":
			small = r.Name
		case r.Variant == "large":
			large = r.Name
		}
	}
	do("REPLICA", "ls")
	do(small+" was up, is cold, after ", "unload", small, "--wait")
	do(small+" was cold, is cold\n", "unload", small)
	do(small+" was cold, is up, after ", "load", small, "--wait")
	do(`"state": "up"`, "load", small, "--format", "json")
	do(small+" was up, is draining\n", "drain", small)
	do(small+" was draining, is up\n", "undrain", small)
	bad(large+" was not loaded: the engine answers 400: failed to load 'large': model.onnx is damaged; it is cold", "load", large, "--wait")
	do("model.onnx is damaged", "ls")
	bad("the router refuses: triton cannot put a model to sleep; it can load and unload", "sleep", small)
	bad(`the router has no replica "nobody"; there are `, "load", "nobody")
	bad("expected 1 argument, got 0", "load")
	bad("want text or json", "ls", "--format", "xml")
	bad("--timeout 0s: want a positive time", "load", small, "--wait", "--timeout", "0s")
	s.end(t)
}
