package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gearshift/serving/engines/agents"
)

// agentRouter is the part of a router that agents talk to.
type agentRouter struct {
	*httptest.Server
	models map[string][]byte // tars that agents may fetch
	digest func([]byte) string

	mu            sync.Mutex // protects what follows
	registrations []agents.Registration
	beats         int
	loaded        []string // as the last heartbeat with them has them
	left          int
}

func startAgentRouter(t *testing.T) *agentRouter {
	r := &agentRouter{models: map[string][]byte{}, digest: func(b []byte) string {
		sum := sha256.Sum256(b)
		return hex.EncodeToString(sum[:])
	}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /admin/agents/{host}", func(w http.ResponseWriter, q *http.Request) {
		var one agents.Registration
		refuse := func(status int, message string) {
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, `{"error": {"message": %q}}`, message)
		}
		switch err := json.NewDecoder(q.Body).Decode(&one); {
		case err != nil:
			refuse(http.StatusBadRequest, err.Error())
		case q.Header.Get("Authorization") != "Bearer secret":
			refuse(http.StatusUnauthorized, "the admin token is missing or wrong")
		case q.PathValue("host") != "gpu0":
			refuse(http.StatusNotFound, `there is no host "`+q.PathValue("host")+`"; there is gpu0`)
		default:
			r.mu.Lock()
			defer r.mu.Unlock()
			r.registrations, r.loaded = append(r.registrations, one), one.Loaded
			_ = json.NewEncoder(w).Encode(agents.Accepted{Term: 2, HeartbeatMS: 20, Misses: 2})
		}
	})
	mux.HandleFunc("POST /admin/agents/{host}/heartbeat", func(w http.ResponseWriter, q *http.Request) {
		var one agents.Pulse
		_ = json.NewDecoder(q.Body).Decode(&one)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.beats++
		if one.Loaded != nil {
			r.loaded = *one.Loaded
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("DELETE /admin/agents/{host}", func(w http.ResponseWriter, _ *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.left++
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /admin/models/{name}", func(w http.ResponseWriter, q *http.Request) {
		files, ok := r.models[q.PathValue("name")]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprintf(w, `{"error": {"message": "the router has no files of model %s"}}`, q.PathValue("name"))
			return
		}
		w.Header().Set(agents.HeaderDigest, r.digest(files))
		_, _ = w.Write(files)
	})
	r.Server = httptest.NewServer(mux)
	t.Cleanup(r.Close)
	return r
}

// waitFor waits until it is so, as the router knows it.
func (r *agentRouter) waitFor(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		r.mu.Lock()
		ok := so()
		r.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not so: %s", what)
		}
	}
}

// A simulated engine registers with its host's name, sends heartbeats with what is loaded, refuses
// orders of an older router, and takes leave.
func TestEngineReports(t *testing.T) {
	t.Setenv("GEARSHIFT_FLEET_TOKEN", "secret")
	r := startAgentRouter(t)
	e := startEngine(t, "--agent", r.URL)
	r.waitFor(t, "registered, with heartbeats", func() bool { return len(r.registrations) == 1 && r.beats > 3 })
	if one := r.registrations[0]; one.URL != e.url || one.Version != version || one.Incarnation == 0 || !slices.Equal(one.Loaded, []string{"small", "large"}) {
		t.Errorf("registered as %+v, at %s", one, e.url)
	}
	const unload = "/v2/repository/models/large/unload"
	e.expect(t, "POST", unload, "", http.StatusForbidden, "takes orders with the fleet's token alone")
	e.header = http.Header{agents.HeaderFleet: {"secret"}}
	e.expect(t, "POST", unload, "", http.StatusOK)
	r.waitFor(t, "large is unloaded", func() bool { return slices.Equal(r.loaded, []string{"small"}) })
	e.header.Set(agents.HeaderEpoch, "4294967297") // term 1
	e.expect(t, "POST", "/v2/repository/models/large/load", "", http.StatusConflict, "another router is in charge")
	e.stop(t)
	if r.left != 1 {
		t.Errorf("left %d times", r.left)
	}
}

// What the router will never accept is one line, and so is a flag without the other.
func TestEngineReportsRefused(t *testing.T) {
	r := startAgentRouter(t)
	engine := []string{"engine", "--scenario", "tiny", "--addr", "127.0.0.1:0"}
	with := func(args ...string) []string { return slices.Concat(engine, args) }
	fail(t, with("--agent", r.URL), "GEARSHIFT_FLEET_TOKEN", "is empty")
	// The log of what was loaded precedes the line.
	refused := func(args []string, want string) {
		t.Helper()
		var out bytes.Buffer
		if code := run(t.Context(), args, &out, &out); code != 1 || !strings.Contains(lastLine(out.String()), want) {
			t.Errorf("%q ends with %d: %s", args, code, out.String())
		}
	}
	t.Setenv("ROUTERS", "wrong")
	refused(with("--agent", r.URL, "--token-env", "ROUTERS"), "gearshift: --agent "+r.URL+", host gpu0: the router refuses: the admin token is missing or wrong")
	t.Setenv("ROUTERS", "secret")
	refused(with("--agent", r.URL, "--token-env", "ROUTERS", "--agent-host", "elsewhere"), `host elsewhere: the router refuses: there is no host "elsewhere"; there is gpu0`)
	fail(t, with("--agent", "localhost:8081", "--token-env", "ROUTERS"), `--agent: "localhost:8081" is not the URL of a router's admin listener`)
	fail(t, with("--agent-host", "h1"), "--agent-host is for --agent URL")
	fail(t, with("--token-env", "ROUTERS"), "--token-env is for --agent URL")
	fail(t, with("--loaders", "0"), "--loaders 0: want 1 to 64")
	fail(t, []string{"engine", "--scenario", "titan-rtx-opt", "--agent", r.URL, "--token-env", "ROUTERS", "--agent-host", "gpu0"}, "--agent-host gpu0 names one host, and there are 4")
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// An engine with an empty repository fetches the model that it is to load, keeps to its memory, and
// leaves nothing of a model whose digest is wrong.
func TestEngineFetchesModels(t *testing.T) {
	needONNX(t)
	t.Setenv("GEARSHIFT_FLEET_TOKEN", "secret")
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "models")
	succeed(t, "models", "make", "--family", "images", "--out", from, "--size", "little=1x16", "--size", "big=2x256")
	r := startAgentRouter(t)
	for _, name := range []string{"little", "big"} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := w.AddFS(os.DirFS(filepath.Join(from, name))); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r.models[name] = b.Bytes()
	}
	p := startProcess(t, "engine", "--repository", to, "--memory", "40MiB", "--addr", "127.0.0.1:0", "--agent", r.URL, "--agent-host", "gpu0")
	e := &engineProcess{process: p, url: "http://" + p.listens(t), header: http.Header{agents.HeaderFleet: {"secret"}}}
	load := func(model string, status int, parts ...string) {
		t.Helper()
		e.expect(t, "POST", "/v2/repository/models/"+model+"/load", "", status, parts...)
	}
	load("little", http.StatusOK)
	r.waitFor(t, "little is loaded", func() bool { return slices.Equal(r.loaded, []string{"little"}) })
	e.expect(t, "POST", "/v1/gearshift/classify", `{"model": "little", "image": "`+tinyPNG+`"}`, http.StatusOK, `"label":"LABEL_`, `"modalities":["image"]`)
	load("none", http.StatusBadRequest, `cannot fetch model \"none\": the router refuses: the router has no files of model none`)
	load("big", http.StatusInsufficientStorage, `\"big\" needs`, "in all")
	e.expect(t, "POST", "/v2/repository/index", "", http.StatusOK, `"big"`)
	if err := os.RemoveAll(filepath.Join(to, "big")); err != nil {
		t.Fatal(err)
	}
	r.digest = func([]byte) string { return strings.Repeat("0", 64) }
	load("big", http.StatusBadRequest, `cannot fetch model \"big\": what came has the digest`)
	if entries, err := os.ReadDir(to); err != nil || len(entries) != 1 {
		t.Errorf("the repository holds %v, %v", entries, err)
	}
	e.stop(t)
}
