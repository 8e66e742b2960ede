package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"gearshift/internal/calibrate/loadgen"
	"gearshift/serving/picker/gateway"
)

// TestPickerForReal sends requests to engines in separate processes that die, come and go, through nginx with a shim, a
// proxy that imitates Envoy, and the router itself. It takes minutes: GEARSHIFT_PICKER=20000 sets the requests by each way
// while engines come and go.
func TestPickerForReal(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("GEARSHIFT_PICKER"))
	if n == 0 {
		t.Skip("it takes minutes; set GEARSHIFT_PICKER to a number of requests, or run make picker-real")
	}
	x := newPickerCheck(t, strings.NewReplacer())
	const each, rate = 4000, 150
	shares := map[string]pickerRun{}
	for _, way := range x.ways() {
		run := x.play(way.url, each, rate, 1)
		t.Logf("%s: %v", way.name, run)
		if run.lost() > 0 || run.refused > 0 {
			t.Errorf("%s: %d lost, %d refused without trouble, want none: %v", way.name, run.lost(), run.refused, run.wrong)
		}
		shares[way.name] = run
	}
	for name, run := range shares {
		most := 0.05
		if name == "nginx" {
			most = 0.1 // the picker sees no answers, and estimates what is in flight
		}
		if d := run.apart(shares["proxy"]); d > most {
			t.Errorf("%s: sizes differ from the proxy's in %.1f %% of the requests; want at most %.0f %%", name, 100*d, 100*most)
		}
	}
	for _, way := range x.ways() {
		ctx, stop := context.WithCancel(t.Context())
		var trouble sync.WaitGroup
		trouble.Go(func() { x.trouble(ctx) })
		run := x.play(way.url, n, rate, 2)
		stop()
		trouble.Wait()
		t.Logf("%s, while engines die, come and go (%d times): %v", way.name, x.troubles, run)
		if run.lost() > 0 {
			t.Errorf("%s: %d requests were lost that no engine had begun to answer: %v", way.name, run.lost(), run.wrong)
		}
	}
}

// pickerCheck holds a fleet with a router, a shim and nginx.
type pickerCheck struct {
	*testing.T
	scenario string
	hosts    []string // of engines, their addresses
	engines  []*process
	router   *process
	url      string // the router's
	picker   pb.ExternalProcessorClient
	shim     string
	troubles int
}

// pickerWay is one route to the engines.
type pickerWay struct{ name, url string }

// newPickerCheck starts engines and a router of the scenario as edited.
func newPickerCheck(t *testing.T, edit *strings.Replacer) *pickerCheck {
	x := &pickerCheck{T: t}
	text, err := os.ReadFile("testdata/four-sizes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	edited := edit.Replace(string(text))
	x.scenario = write(t, "engines.yaml", edited)
	served := &strings.Builder{}
	served.WriteString(edited)
	served.WriteString("serving:\n  backend: upstream\n  health: {probe_interval: 500ms}\n  upstreams:\n")
	for i := range 4 {
		x.hosts = append(x.hosts, freeAddr(t))
		x.engines = append(x.engines, nil)
		x.begin(i)
		fmt.Fprintf(served, "    \"*@h%d\": {url: \"http://%s\"}\n", i, x.hosts[i])
	}
	asked := freeAddr(t)
	x.router = startProcess(t, "serve", "--scenario", write(t, "router.yaml", served.String()), "--addr", "127.0.0.1:0", "--admin-addr", "off", "--extproc", asked, "--policy", "universal", "--store", filepath.Join(t.TempDir(), "none.db"))
	x.url = "http://" + x.router.listens(t)
	conn, err := asEnvoy(asked)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	x.picker = pb.NewExternalProcessorClient(conn)
	return x
}

// begin starts the engines of a host.
func (x *pickerCheck) begin(host int) {
	p := startProcess(x.T, "engine", "--scenario", x.scenario, "--host", fmt.Sprintf("h%d", host), "--addr", x.hosts[host])
	p.listens(x.T)
	x.engines[host] = p
}

// ways starts the routes to the engines, and returns them, the router's own port first.
func (x *pickerCheck) ways() []pickerWay {
	if x.shim == "" {
		asks := &gateway.Gateway{Picker: x.picker}
		x.shim = listen(x.T, func(w http.ResponseWriter, r *http.Request) {
			p, err := asks.Ask(r.Context(), r)
			switch {
			case err != nil:
				http.Error(w, err.Error(), http.StatusInternalServerError)
			case p.Now != nil:
				p.Refuse(w)
			default:
				w.Header().Set("X-Picked", strings.Join(p.Endpoints, ","))
				_, _ = w.Write(p.Body)
			}
		})
	}
	way := &gateway.Gateway{Picker: x.picker, Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Failed: func(err error) { x.Logf("gateway: %v", err) }}
	return []pickerWay{{"proxy", x.url}, {"gateway", "http://" + listen(x.T, way.ServeHTTP)}, {"nginx", "http://" + x.nginx()}}
}

// listen serves HTTP on a free port until the test's end.
func listen(t *testing.T, h http.HandlerFunc) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

// nginx starts nginx before the shim.
func (x *pickerCheck) nginx() (addr string) {
	program, err := exec.LookPath("nginx")
	modules, _ := filepath.Glob("/usr/lib/*/ngx_http_js_module.so")
	if more, _ := filepath.Glob("/usr/lib/nginx/modules/ngx_http_js_module.so"); len(more) > 0 {
		modules = more
	}
	if err != nil || len(modules) == 0 {
		x.Fatal("nginx and its module for JavaScript are not here; Debian: apt-get install nginx-light libnginx-mod-http-js")
	}
	dir, addr := x.TempDir(), freeAddr(x.T)
	for _, name := range []string{"nginx.conf", "pick.js"} {
		text, err := os.ReadFile(filepath.Join("testdata/nginx", name))
		if err != nil {
			x.Fatal(err)
		}
		edits := strings.NewReplacer("@DIR@", dir, "@MODULES@", filepath.Dir(modules[0]), "@LISTEN@", addr, "@SHIM@", x.shim)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(edits.Replace(string(text))), 0o644); err != nil {
			x.Fatal(err)
		}
	}
	var said bytes.Buffer
	c := exec.Command(program, "-p", dir, "-e", filepath.Join(dir, "nginx.log"), "-c", filepath.Join(dir, "nginx.conf"), "-g", "daemon off;")
	c.Stderr = &said
	if err := c.Start(); err != nil {
		x.Fatal(err)
	}
	x.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		_ = c.Wait()
		if x.Failed() {
			text, _ := os.ReadFile(filepath.Join(dir, "nginx.log"))
			x.Logf("nginx: %s %.2000s", said.String(), text)
		}
	})
	x.answers("http://" + addr + "/v1/models")
	return addr
}

// answers waits until the URL answers.
func (x *pickerCheck) answers(url string) {
	for late := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		r, err := http.Get(url)
		if err == nil {
			r.Body.Close()
			if r.StatusCode == 200 {
				return
			}
		}
		if time.Now().After(late) {
			x.Fatalf("%s does not answer: %v", url, err)
		}
	}
}

// trouble kills, stops and starts engines, one at a time, until the context ends.
func (x *pickerCheck) trouble(ctx context.Context) {
	for i := 0; ; i++ {
		host := i % len(x.hosts)
		if pause(ctx, 4*time.Second); ctx.Err() != nil {
			return
		}
		if i%3 == 2 {
			x.engines[host].stop(x.T) // in order
		} else {
			x.engines[host].kill()
		}
		x.troubles++
		pause(ctx, 3*time.Second)
		x.begin(host)
	}
}

// pickerRun counts how requests ended.
type pickerRun struct {
	sizes   map[string]int
	refused int            // 429 or 503, with a reason
	begun   int            // broke off within the answer
	wrong   map[string]int // what else, by what it says
}

func (r pickerRun) lost() (n int) {
	for _, k := range r.wrong {
		n += k
	}
	return n
}

func (r pickerRun) answered() (n int) {
	for _, k := range r.sizes {
		n += k
	}
	return n
}

// apart returns the share of requests that went to other sizes than in the other run.
func (r pickerRun) apart(o pickerRun) (d float64) {
	for _, size := range []string{"tiny", "small", "medium", "large"} {
		d += max(0, float64(r.sizes[size])/float64(max(1, r.answered()))-float64(o.sizes[size])/float64(max(1, o.answered())))
	}
	return d
}

func (r pickerRun) String() string {
	return fmt.Sprintf("%d answered, sizes %v, %d refused, %d broken off once begun, lost %v", r.answered(), r.sizes, r.refused, r.begun, r.wrong)
}

// play sends n requests at the rate, in an open loop.
func (x *pickerCheck) play(url string, n int, rate float64, seed uint64) pickerRun {
	run := pickerRun{sizes: map[string]int{}, wrong: map[string]int{}}
	random, at := rand.New(rand.NewPCG(seed, 63)), make([]time.Duration, n)
	for i := 1; i < n; i++ {
		at[i] = at[i-1] + time.Duration(random.ExpFloat64()/rate*float64(time.Second))
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	var mu sync.Mutex
	loadgen.OpenLoop(x.Context(), loadgen.Clock(), n, func(i int) time.Duration { return at[i] }, func(i int) {
		size, status, err := askSize(client, url, i)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil && status == 200:
			run.sizes[size]++
		case err == nil && (status == 429 || status == 503 && !strings.Contains(size, "upstream")):
			run.refused++
		case err != nil && status == 200:
			run.begun++
		case err != nil:
			run.wrong[err.Error()]++
		default:
			run.wrong[fmt.Sprint(status, " ", size)]++
		}
	})
	return run
}

// askSize sends one request and returns the size that answered, or the text of an error status.
func askSize(client *http.Client, url string, i int) (size string, status int, err error) {
	text := fmt.Sprintf(`{"model":"auto","max_tokens":40,"messages":[{"role":"user","content":"question %d of many that are much alike"}]}`, i)
	r, err := client.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(text))
	if err != nil {
		return "", 0, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != 200 {
		return strings.TrimSpace(string(body[:min(len(body), 160)])), r.StatusCode, err
	}
	var answer struct{ Model string }
	err = json.Unmarshal(body, &answer)
	return answer.Model, r.StatusCode, err
}
