package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"gearshift/serving/picker/gateway"
)

// routersSetting has a number of routers know of each other by gauges and by shares at intervals; 0s is never.
type routersSetting struct {
	name           string
	routers        int
	gauges, shares string
}

// TestRoutersForReal measures the utility of four routers, as processes, before one fleet of simulated engines in real time,
// by the routers' own ports and as endpoint pickers of a gateway each. Every setting gets the same requests, each at a random
// router, and is simulated with them. GEARSHIFT_ROUTERS sets the length of the workload that each gets, such as 60s.
func TestRoutersForReal(t *testing.T) {
	length, err := time.ParseDuration(cmp.Or(os.Getenv("GEARSHIFT_ROUTERS"), "0s"))
	if err != nil || length == 0 {
		t.Skip("it takes minutes; set GEARSHIFT_ROUTERS to a time such as 60s, or run make routers-real")
	}
	rounds, _ := strconv.Atoi(cmp.Or(os.Getenv("GEARSHIFT_ROUNDS"), "1"))
	x := newRoutersCheck(t, length)
	settings := []routersSetting{
		{"one router", 1, "1s", "0s"}, {"neither", 4, "0s", "0s"}, {"gauges each second", 4, "1s", "0s"},
		{"shares each 100 ms", 4, "0s", "100ms"}, {"both", 4, "1s", "100ms"},
	}
	for _, s := range settings {
		var own, picked []float64
		for range rounds {
			own, picked = append(own, x.play(s, false)), append(picked, x.play(s, true))
		}
		slices.Sort(own)
		slices.Sort(picked)
		t.Logf("%-20s utility by own ports %.3f (%.3f to %.3f), as pickers %.3f (%.3f to %.3f), simulated %.3f", s.name,
			own[rounds/2], own[0], own[rounds-1], picked[rounds/2], picked[0], picked[rounds-1], x.simulate(s))
	}
}

// routersCheck holds the requests that every setting gets.
type routersCheck struct {
	*testing.T
	dir      string
	requests int
	policy   string
	scenario string // of a router, up to its own section
}

const routersFleet = "titan-rtx-opt"

// newRoutersCheck starts the engines, and splits the workload's first part at random among as many routers as there may be.
func newRoutersCheck(t *testing.T, length time.Duration) *routersCheck {
	x := &routersCheck{T: t, dir: t.TempDir(), policy: "task-aware:0.98,0.08,1,0.5,0.15"}
	at := []string{"scenario", "upstreams", routersFleet}
	for i := range 4 {
		host, addr := fmt.Sprintf("gpu%d", i), freeAddr(t)
		startProcess(t, "engine", "--scenario", routersFleet, "--host", host, "--addr", addr).listens(t)
		at = append(at, "--at", host+"=http://"+addr)
	}
	x.scenario = succeed(t, at...)
	whole := filepath.Join(x.dir, "whole.jsonl")
	succeed(t, "workload", "gen", "poisson:12", "--requests", strconv.Itoa(int(40*length.Seconds())), "--out", whole)
	text, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		var r struct {
			At float64 `json:"at_s"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.At < length.Seconds() {
			all = append(all, line)
		}
	}
	x.requests = len(all)
	for _, n := range []int{1, 4} {
		random, parts := rand.New(rand.NewPCG(7, 0)), make([]strings.Builder, n)
		for _, line := range all {
			parts[random.IntN(n)].WriteString(line)
		}
		for i := range parts {
			if err := os.WriteFile(x.trace(n, i), []byte(parts[i].String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return x
}

// trace returns the file of the requests for one of n routers.
func (x *routersCheck) trace(n, router int) string {
	return filepath.Join(x.dir, fmt.Sprintf("trace-%d-%d.jsonl", n, router))
}

// play sends the requests to the setting's routers, by their own ports or through gateways, and returns the utility.
func (x *routersCheck) play(s routersSetting, picked bool) (utility float64) {
	admins, urls := make([]string, s.routers), make([]string, s.routers)
	for i := range admins {
		admins[i] = freeAddr(x.T)
	}
	for i := range urls {
		r := x.router(s, admins, i)
		defer r.process.stop(x.T)
		urls[i] = r.url
		if picked {
			urls[i] = r.gateway(x)
		}
	}
	var mu sync.Mutex
	var clients sync.WaitGroup
	worth, sent := 0.0, 0
	for i, url := range urls {
		clients.Go(func() {
			code, out, errs := gearshift(x.T, "replay", "--url", url, "--trace", x.trace(s.routers, i), "--lengths", "--format", "json", "--store", filepath.Join(x.dir, "none.db"))
			var row struct {
				Requests int
				Utility  float64
			}
			mu.Lock()
			defer mu.Unlock()
			if err := json.Unmarshal([]byte(out), &row); code != 0 || err != nil {
				x.Errorf("%s: replay to router %d: exit code %d, %v: %s", s.name, i, code, err, errs)
			}
			worth, sent = worth+row.Utility*float64(row.Requests), sent+row.Requests
		})
	}
	clients.Wait()
	if sent != x.requests {
		x.Errorf("%s: %d requests were sent, want %d", s.name, sent, x.requests)
	}
	return worth / float64(max(1, sent))
}

// runningRouter is one router of a setting.
type runningRouter struct {
	process     *process
	url, picker string
}

// router starts a router of the setting and waits until it is ready.
func (x *routersCheck) router(s routersSetting, admins []string, i int) runningRouter {
	own := fmt.Sprintf("serving:\n  routers: %d\n  admin: {addr: %q}\n  gauges: {scrape_interval: %s}\n", s.routers, admins[i], s.gauges)
	if s.routers > 1 && s.shares != "0s" {
		own += fmt.Sprintf("  peers: {urls: [\"http://%s\"], poll: %s}\n", strings.Join(admins, `", "http://`), s.shares)
	}
	file := write(x.T, "router.yaml", strings.Replace(x.scenario, "serving:\n", own, 1))
	r := runningRouter{picker: freeAddr(x.T)}
	r.process = startProcess(x.T, "serve", "--scenario", file, "--policy", x.policy, "--addr", "127.0.0.1:0", "--extproc", r.picker, "--store", filepath.Join(x.dir, "none.db"))
	r.url = "http://" + r.process.listens(x.T)
	return r
}

// gateway starts a proxy that asks the router for endpoints as Envoy does, and returns its URL.
func (r runningRouter) gateway(x *routersCheck) (url string) {
	conn, err := asEnvoy(r.picker)
	if err != nil {
		x.Fatal(err)
	}
	x.Cleanup(func() { conn.Close() })
	way := &gateway.Gateway{Picker: pb.NewExternalProcessorClient(conn), Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Failed: func(err error) { x.Logf("gateway: %v", err) }}
	return "http://" + listen(x.T, way.ServeHTTP)
}

// simulate returns the setting's utility with the same requests by the simulator.
func (x *routersCheck) simulate(s routersSetting) float64 {
	args := []string{"eval", "--workload", "trace:" + x.trace(1, 0) + "+lengths", "--policy", x.policy, "--seeds", "1", "--format", "json", "--store", filepath.Join(x.dir, "none.db")}
	if s.routers > 1 {
		args = append(args, "--routers", strconv.Itoa(s.routers), "--gauge-interval", s.gauges)
		if s.shares != "0s" {
			args = append(args, "--share-interval", s.shares, "--share-delay", "5ms")
		}
	}
	var out struct {
		Results []struct{ Utility struct{ Mean float64 } }
	}
	if err := json.Unmarshal([]byte(succeed(x.T, args...)), &out); err != nil || len(out.Results) != 1 {
		x.Fatalf("eval: %v, %d results, want 1", err, len(out.Results))
	}
	return out.Results[0].Utility.Mean
}
