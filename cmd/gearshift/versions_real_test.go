package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestVersionsForReal: two engine processes with real models behind a router, clients that ask all the
// time, and one change of version after another, by the command that operators use. No request may
// fail, and after each change all answers are the new version's.
//
// GEARSHIFT_VERSIONS=10 is the number of changes of the long run, in each of three ways: with room for
// both versions, without, and with all replicas together.
func TestVersionsForReal(t *testing.T) {
	needONNX(t)
	changes, ways := 2, []string{"in addition"}
	if text := os.Getenv("GEARSHIFT_VERSIONS"); text != "" {
		var err error
		if changes, err = strconv.Atoi(text); err != nil || changes < 1 {
			t.Fatalf("GEARSHIFT_VERSIONS=%s: want a number of changes, 1 or more", text)
		}
		ways = append(ways, "in place", "together")
	}
	for _, way := range ways {
		t.Run(strings.ReplaceAll(way, " ", "-"), func(t *testing.T) {
			x := newVersionsCheck(t, way)
			stop := x.clients(4)
			for n := range changes {
				to := strconv.Itoa(2 - n%2)
				out := succeed(t, "models", "roll", "v", "--to", to, "--wait", "--admin", x.admin)
				if !strings.Contains(out, "steady") {
					t.Errorf("after change %d: %s", n+1, out)
				}
				x.all(to)
			}
			stop()
			t.Logf("%s: %d changes of version on 2 engines: %d requests, %d failed", way, changes, x.asked, len(x.failed))
			if len(x.failed) > 0 || x.asked < 50*changes {
				t.Errorf("%d of %d requests failed: %v", len(x.failed), x.asked, x.failed[:min(5, len(x.failed))])
			}
		})
	}
}

// TestFlawedVersionForReal: a version that fails every other request is given up by itself, by what
// the router has seen of both, and its clients get all their answers from the version before.
func TestFlawedVersionForReal(t *testing.T) {
	needONNX(t)
	x := newVersionsCheck(t, "flawed")
	stop := x.clients(4)
	failWaiting(t, []string{"models", "roll", "v", "--to", "2", "--wait", "--admin", x.admin}, "v has gone back to version 1", "requests failed", "of the version before")
	x.all("1")
	stop()
	if x.asked < 100 || len(x.failed) > 0 {
		t.Errorf("%d of %d requests failed: %v", len(x.failed), x.asked, x.failed[:min(5, len(x.failed))])
	}
}

// flawed stands before an engine, and fails every other request for version 2, with a status that has the
// router try another replica.
func flawed(t *testing.T, engine string) string {
	base, err := url.Parse(engine)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	through := httputil.NewSingleHostReverseProxy(base)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if strings.HasSuffix(r.URL.Path, "/classify") && strings.Contains(string(body), `"v@2"`) && asked.Add(1)%2 == 0 {
			http.Error(w, `{"error": {"message": "flawed"}}`, http.StatusBadGateway)
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// A version that cannot be loaded changes nothing, a router that is killed during a change finishes it
// after its start, and the commands show and refuse what they should.
func TestVersionsAfterTrouble(t *testing.T) {
	needONNX(t)
	x := newVersionsCheck(t, "in addition")
	stop := x.clients(2)
	failWaiting(t, []string{"models", "roll", "v", "--to", "bad", "--wait", "--admin", x.admin}, "v has gone back to version 1", "no whole ONNX file")
	stop()
	if len(x.failed) > 0 {
		t.Errorf("%d of %d requests failed: %v", len(x.failed), x.asked, x.failed[:min(5, len(x.failed))])
	}
	fail(t, []string{"models", "roll", "w", "--to", "2", "--admin", x.admin}, `there is no model "w"`, "there are v")
	fail(t, []string{"models", "roll", "v", "--to", "1", "--admin", x.admin}, "has version", "already")
	fail(t, []string{"models", "pause", "v", "--admin", x.admin}, "nothing to pause")
	fail(t, []string{"models", "roll", "v", "--admin", x.admin}, "want --to VERSION")

	succeed(t, "models", "roll", "v", "--to", "2", "--admin", x.admin)
	time.Sleep(time.Second) // anywhere in it
	x.router.kill()
	x.serve()
	x.steady("2")
	x.all("2")
	if os.Getenv("GEARSHIFT_VERSIONS") != "" {
		x.restart()
	}
	succeed(t, "models", "rollback", "v", "--wait", "--admin", x.admin)
	x.all("1")
	for _, e := range x.engines {
		e.expect(t, "POST", "/v2/repository/index", `{"ready": true}`, http.StatusOK, `[{"name":"v","version":"1","state":"READY","reason":""}]`)
	}
}

// restart kills an engine and starts it with the first version: it gets the wanted one again.
func (x *versionsCheck) restart() {
	t := x.t
	again := strings.TrimPrefix(x.engines[0].url, "http://")
	x.engines[0].kill()
	x.engines[0].process = startProcess(t, "engine", "--repository", x.dir, "--load", "v", "--addr", again) // the first version
	x.engines[0].listens(t)
	for tries, index := 0, ""; !strings.Contains(index, `[{"name":"v@2"`); tries++ {
		if tries > 400 {
			t.Fatalf("the engine that came back has %s\n%s", index, x.router.log)
		}
		time.Sleep(50 * time.Millisecond)
		index = x.engines[0].expect(t, "POST", "/v2/repository/index", `{"ready": true}`, http.StatusOK)
	}
	x.steady("2")
	x.all("2")
}

// versionsCheck is two engines and a router.
type versionsCheck struct {
	t          *testing.T
	dir        string // of models
	scenario   string
	state      string
	engines    []*engineProcess
	router     *process
	url, admin string
	answers    map[string]string // by version

	mu     sync.Mutex // protects what follows
	asked  int
	failed []string
}

func newVersionsCheck(t *testing.T, way string) *versionsCheck {
	t.Helper()
	t.Setenv("GEARSHIFT_ADMIN_TOKEN", testToken)
	x := &versionsCheck{t: t, answers: map[string]string{}, state: filepath.Join(t.TempDir(), "versions.db")}
	dir := makeVersions(t)
	x.dir = dir
	var upstreams strings.Builder
	for h := range 2 {
		p := startProcess(t, "engine", "--repository", dir, "--load", "v", "--addr", "127.0.0.1:0")
		e := &engineProcess{process: p, url: "http://" + p.listens(t)}
		x.engines = append(x.engines, e)
		at := e.url
		if way == "flawed" {
			at = flawed(t, at)
		}
		fmt.Fprintf(&upstreams, "    \"*@h%d\": {url: %q, lifecycle: gearshift}\n", h+1, at)
	}
	for _, version := range []string{"1", "2"} {
		name := map[string]string{"1": "v", "2": "v@2"}[version]
		e := x.engines[0]
		if version == "2" {
			e.expect(t, "POST", "/v2/repository/models/v@2/load", "", http.StatusOK)
		}
		x.answers[version] = scores(e.expect(t, "POST", "/v1/gearshift/classify", classifyBody(name), http.StatusOK))
	}
	x.engines[0].expect(t, "POST", "/v2/repository/models/v@2/unload", "", http.StatusOK)
	if x.answers["1"] == x.answers["2"] {
		t.Fatalf("both versions answer %s", x.answers["1"])
	}
	memory, more := "2GiB", ", warmup: 100ms, shares: [0.2], slower: 20"
	switch way {
	case "in place":
		memory = "1GiB"
	case "together":
		more += ", together: true"
	case "flawed":
		more = ", warmup: 10s, shares: [0.2], slower: 100, least: 20"
	}
	x.scenario = write(t, "versions.yaml", fmt.Sprintf(`
tasks: [{name: classify, total_ms: 1000, quality: {v: 1}}]
variants: [{name: v, model: v}]
models: [{name: v, memory: 600MiB, load_ms: 100}]
hosts: [{name: h1, memory: %[1]s}, {name: h2, memory: %[1]s}]
replicas: [{variant: v, hosts: [h1, h2], memory: 600MiB}]
profiles: [{variant: v, batch_ms: {1: 2, 8: 8}}]
workload: {output_tokens: {distribution: none}}
rollout: {tries: 2, retry_after: 200ms, utilisation: 1%[2]s}
serving:
  backend: upstream
  lifecycle: {poll_interval: 200ms}
  upstreams:
%[3]s`, memory, more, upstreams.String()))
	x.serve()
	return x
}

// serve starts the router.
func (x *versionsCheck) serve() {
	admin := freeAddr(x.t)
	x.router = startProcess(x.t, "serve", "--scenario", x.scenario, "--addr", "127.0.0.1:0", "--admin-addr", admin,
		"--store", filepath.Join(x.t.TempDir(), "store.db"), "--rollout-state", x.state)
	x.url, x.admin = "http://"+x.router.listens(x.t), "http://"+admin
}

// steady waits until both engines have the version.
func (x *versionsCheck) steady(version string) {
	x.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		out := succeed(x.t, "models", "ls", "--admin", x.admin)
		if strings.Contains(out, "2 of 2") && strings.Contains(out, "steady") && strings.Contains(out, "v      "+version) {
			return
		}
		if time.Now().After(deadline) {
			x.t.Fatalf("not steady: %s\n%s", out, x.router.log)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// makeVersions makes a folder with two versions of a model, and a damaged one.
func makeVersions(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for seed, name := range map[string]string{"1": "v", "2": "v@2"} {
		made := t.TempDir()
		succeed(t, "models", "make", "--family", "images", "--out", made, "--size", "v=1x16", "--seed", seed)
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(made, "v"))); err != nil {
			t.Fatal(err)
		}
	}
	damaged := filepath.Join(dir, "v@bad")
	if err := os.CopyFS(damaged, os.DirFS(filepath.Join(dir, "v"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(damaged, "model.onnx"), 1000); err != nil {
		t.Fatal(err)
	}
	return dir
}

// scores is the part of an answer that a version determines.
func scores(body string) string {
	_, list, _ := strings.Cut(body, `"data"`)
	list, _, _ = strings.Cut(list, `"usage"`)
	return list
}

// clients ask without a pause but for their answers, until stop.
func (x *versionsCheck) clients(n int) (stop func()) {
	ctx, end := context.WithCancel(x.t.Context())
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: n}}
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for ctx.Err() == nil {
				_, wrong := x.ask(client)
				x.mu.Lock()
				x.asked++
				if wrong != "" {
					x.failed = append(x.failed, wrong)
				}
				x.mu.Unlock()
				pause(ctx, 2*time.Millisecond)
			}
		})
	}
	return func() {
		end()
		all.Wait()
	}
}

// ask asks once, and returns the answer, or what was wrong.
func (x *versionsCheck) ask(client *http.Client) (answer, wrong string) {
	response, err := client.Post(x.url+"/v1/gearshift/classify", "application/json", strings.NewReader(classifyBody("v")))
	if err != nil {
		return "", err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return "", fmt.Sprintf("%d %v %s", response.StatusCode, err, body)
	}
	return scores(string(body)), ""
}

// all has all answers be those of the version.
func (x *versionsCheck) all(version string) {
	x.t.Helper()
	for range 10 {
		if answer, wrong := x.ask(http.DefaultClient); wrong != "" || answer != x.answers[version] {
			x.t.Errorf("after the change to version %s: %s%s, want %s", version, wrong, answer, x.answers[version])
			return
		}
	}
}

// failWaiting has a command that waits end with an error after its lines of progress.
func failWaiting(t *testing.T, args []string, words ...string) {
	t.Helper()
	code, stdout, stderr := gearshift(t, args...)
	lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	last := lines[len(lines)-1]
	if code != 1 || stdout != "" {
		t.Errorf("gearshift %s: exit code %d, standard output %q, error %q", strings.Join(args, " "), code, stdout, stderr)
	}
	for _, w := range words {
		if !strings.Contains(last, w) {
			t.Errorf("gearshift %s: error %q does not say %q", strings.Join(args, " "), last, w)
		}
	}
}
