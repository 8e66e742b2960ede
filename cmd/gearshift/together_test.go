package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestAllTogetherForReal: three engine processes behind a router whose scenario has failover, changes of version,
// rebalancing and jobs. Clients ask all the time while a version is changed, and while its host is killed during
// the next change and comes back. No request and no job is lost, and in the end the host has the last version.
//
// GEARSHIFT_TOGETHER=2m is how long it goes on asking after that, at least.
func TestAllTogetherForReal(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some 20 s")
	}
	x := startTogether(t, "together.yaml")
	stop := x.clients(true)
	x.until("all applications at home", func(s string) bool { return strings.Contains(s, `"active":"large@h1"`) }, "/admin/failover")
	x.order("large", "2")
	steady := func(version string) func(string) bool {
		return func(s string) bool {
			return x.model(s, "large").State == "steady" && x.model(s, "large").Version == version && x.model(s, "large").Locations[0].Version == version
		}
	}
	x.until("version 2", steady("2"), "/admin/versions")
	x.order("large", "3")
	x.until("a change on h1", func(s string) bool { return x.model(s, "large").Locations[0].Doing == "shifting" }, "/admin/versions")
	x.engines[0].kill()
	x.until("chat elsewhere", func(s string) bool {
		return strings.Contains(s, `"name":"chat"`) && !strings.Contains(s, `"active":"large@h1"`) && !strings.Contains(s, `"active":""`)
	}, "/admin/failover")
	x.engine(0)
	x.until("chat at home", func(s string) bool { return strings.Contains(s, `"active":"large@h1"`) }, "/admin/failover")
	x.until("version 3", steady("3"), "/admin/versions")
	time.Sleep(longer(t))
	stop()
	if len(x.failed) > 0 || x.asked < 50 || x.jobs < 10 {
		t.Errorf("of %d requests and %d jobs these failed: %v; the router says\n%s", x.asked, x.jobs, x.failed, lastLines(x.router.log.String(), 4000))
	}
	t.Logf("%d requests, %d jobs, %d lost", x.asked, x.jobs, len(x.failed))
}

// longer returns how long the tests go on for that the environment asks for longer ones.
func longer(t *testing.T) time.Duration {
	text := os.Getenv("GEARSHIFT_TOGETHER")
	d, err := time.ParseDuration(cmp.Or(text, "0"))
	if err != nil {
		t.Fatalf("GEARSHIFT_TOGETHER=%s: want a time such as 2m", text)
	}
	return d
}

// TestStreamsTogetherForReal: clients stream over WebSockets to a fleet that answers chat, too, when one of the hosts is
// killed and comes back. No completion is lost, chat is answered elsewhere, and all clients are served by the other host.
//
// GEARSHIFT_TOGETHER=2m has it take so much longer.
func TestStreamsTogetherForReal(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some 15 s")
	}
	const clients = 8
	x := startTogether(t, "streaming.yaml")
	stop := x.clients(false)
	x.until("chat at home with a backup", func(s string) bool {
		return strings.Contains(s, `"active":"large@h1"`) && strings.Contains(s, `"unprotected":0`)
	}, "/admin/failover")
	report, duration := make(chan string, 1), 10*time.Second+longer(t)
	go func() {
		_, out, errs := gearshift(t, "stream", "--url", x.url, "--clients", fmt.Sprint(clients), "--duration", duration.String(), "--format", "json")
		report <- out + errs
	}()
	served := func(h1 bool) func(string) bool {
		return func(s string) bool {
			var state struct {
				Counts struct{ Served int }
				Hosts  []struct{ Clients int }
			}
			return json.Unmarshal([]byte(s), &state) == nil && state.Counts.Served == clients && state.Hosts[0].Clients > 0 == h1
		}
	}
	x.until("all clients served, by both hosts", served(true), "/admin/streams")
	x.engines[0].kill()
	x.until("all clients served by the other host", served(false), "/admin/streams")
	x.until("chat elsewhere", func(s string) bool {
		return strings.Contains(s, `"name":"chat"`) && !strings.Contains(s, `"active":"large@h1"`) && !strings.Contains(s, `"active":""`)
	}, "/admin/failover")
	x.engine(0)
	x.until("chat at home again", func(s string) bool { return strings.Contains(s, `"active":"large@h1"`) }, "/admin/failover")
	var r struct {
		Results, Moves int
		Gap            float64 `json:"longest_gap_ms"`
		Hosts          map[string]int
	}
	if text := <-report; json.Unmarshal([]byte(text), &r) != nil || r.Moves < 1 || r.Results < 100 || r.Gap > 5000 || r.Hosts["h2"] != clients {
		t.Errorf("%s; want results, and all clients on h2 at the end; the router says\n%s", text, lastLines(x.router.log.String(), 4000))
	}
	stop()
	if len(x.failed) > 0 || x.asked < 50 {
		t.Errorf("of %d requests these failed: %v; the router says\n%s", x.asked, x.failed, lastLines(x.router.log.String(), 4000))
	}
	t.Logf("%d requests, %d lost; %d results, %d clients moved, none was without a result for more than %.0f ms", x.asked, len(x.failed), r.Results, r.Moves, r.Gap)
}

// together is a router with its engines.
type together struct {
	t       *testing.T
	file    string
	addrs   []string
	engines []*process
	router  *process
	admin   string
	url     string

	mu          sync.Mutex // protects what follows
	asked, jobs int
	failed      []string
}

// startTogether starts them by the scenario of that name, with room for two of each model and slower heartbeats,
// since other tests take the processors, too.
func startTogether(t *testing.T, scenario string) *together {
	t.Helper()
	t.Setenv("GEARSHIFT_ADMIN_TOKEN", "token-of-this-test")
	t.Setenv("GEARSHIFT_FLEET_TOKEN", "token-of-the-fleet")
	text, err := os.ReadFile(filepath.Join("..", "..", "internal", "scenario", "testdata", scenario))
	if err != nil {
		t.Fatal(err)
	}
	x := &together{t: t, engines: make([]*process, 3), admin: freeAddr(t)}
	edits := []string{
		"memory: 16GiB", "memory: 32GiB", "headroom: 10%", "headroom: 60%, heartbeat: 300ms, return_after: 1s", "headroom: 60%", "headroom: 60%, heartbeat: 300ms, return_after: 1s",
		"utilisation: 0.8, warmup: 2s", "utilisation: 1, warmup: 300ms, retry_after: 1s", "load_ms: 3000", "load_ms: 500",
	}
	for h := range x.engines {
		x.addrs = append(x.addrs, freeAddr(t))
		edits = append(edits, fmt.Sprintf("127.0.0.1:910%d", h+1), x.addrs[h])
	}
	x.file = write(t, scenario, strings.NewReplacer(edits...).Replace(string(text)))
	for h := range x.engines {
		x.engine(h)
	}
	x.router = startProcess(t, "serve", "--scenario", x.file, "--policy", "threshold", "--addr", "127.0.0.1:0", "--admin-addr", x.admin, "--store", filepath.Join(t.TempDir(), "store.db"))
	x.url = "http://" + x.router.listens(t)
	return x
}

// engine starts the host's engine.
func (x *together) engine(host int) {
	x.engines[host] = startProcess(x.t, "engine", "--scenario", x.file, "--host", fmt.Sprintf("h%d", host+1), "--addr", x.addrs[host], "--agent", "http://"+x.admin)
	x.engines[host].listens(x.t)
}

// clients ask, and have jobs done if the scenario has any, until stop is called.
func (x *together) clients(jobs bool) (stop func()) {
	ctx, end := context.WithCancel(x.t.Context())
	var all sync.WaitGroup
	chat := func() {
		x.ask(&x.asked, "/v1/chat/completions", `{"model":"auto","messages":[{"role":"user","content":"hi"}],"max_tokens":4,"metadata":{"task":"chat"}}`)
	}
	job := func() {
		x.ask(&x.jobs, "/v1/gearshift/classify", `{"model":"digits","min_quality":0.85,"total_ms":5000,"inputs":[{"image":"`+tinyPNG+`","audio":"`+tinyWAV+`"}]}`)
	}
	work := []func(){chat, chat}
	if jobs {
		work = append(work, job)
	}
	for _, f := range work {
		all.Go(func() {
			for ctx.Err() == nil {
				f()
				pause(ctx, 50*time.Millisecond)
			}
		})
	}
	return func() { end(); all.Wait() }
}

// ask asks once, and counts it.
func (x *together) ask(count *int, path, body string) {
	wrong := ""
	response, err := http.Post(x.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		wrong = err.Error()
	} else {
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK {
			wrong = fmt.Sprintf("%s: %d %v %.300s", path, response.StatusCode, err, text)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if *count++; wrong != "" {
		x.failed = append(x.failed, wrong)
	}
}

// at asks the admin listener.
func (x *together) at(method, path, body string) string {
	x.t.Helper()
	r, err := http.NewRequestWithContext(x.t.Context(), method, "http://"+x.admin+path, strings.NewReader(body))
	if err != nil {
		x.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+os.Getenv("GEARSHIFT_ADMIN_TOKEN"))
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		x.t.Fatalf("%v; the router says\n%s", err, lastLines(x.router.log.String(), 4000))
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		x.t.Fatalf("%s %s: %d %s", method, path, response.StatusCode, text)
	}
	return string(text)
}

func (x *together) order(model, version string) {
	x.t.Helper()
	x.at(http.MethodPost, "/admin/versions/"+model+"/roll", `{"to":"`+version+`"}`)
}

// until waits until what the path shows is so.
func (x *together) until(what string, is func(string) bool, path string) {
	x.t.Helper()
	text := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if text = x.at(http.MethodGet, path, ""); is(text) {
			return
		}
	}
	x.t.Fatalf("not within a minute: %s; %s; the router says\n%s", what, text, lastLines(x.router.log.String(), 6000))
}

// shownVersion reads how a model stands, from what /admin/versions shows.
type shownVersion struct {
	Model, Version, State string
	Locations             []struct{ Host, Version, Doing string }
}

func (x *together) model(text, name string) shownVersion {
	var list []shownVersion
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		x.t.Fatal(err)
	}
	for _, v := range list {
		if v.Model == name {
			return v
		}
	}
	x.t.Fatalf("no %s in %s", name, text)
	return shownVersion{}
}
