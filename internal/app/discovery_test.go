package app

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gearshift/internal/apiserver"
	"gearshift/internal/scenario"
	"gearshift/serving/discovery"
	"gearshift/serving/discovery/settings"
)

var (
	churnPods = flag.Int("churn-pods", 24, "pods that come and go")
	churnFor  = flag.Duration("churn-for", 3*time.Second, "for how long")
)

// podHosts listens for all pods of a test, each at its own address in 127.0.0.0/8.
type podHosts struct {
	listener net.Listener
	port     int

	mu   sync.Mutex
	pods map[string]*podHost // by address

	asked, late, unready atomic.Int64
	worst                atomic.Int64 // time since a pod was gone when it was asked, the longest
}

// podHost is one pod, as the test knows it.
type podHost struct {
	gone    time.Time // zero: it is there
	unready time.Time // zero: it is ready
	killed  chan struct{}
}

// newPodHosts listens for all pods.
func newPodHosts(t *testing.T) *podHosts {
	t.Helper()
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &podHosts{listener: l, port: l.Addr().(*net.TCPAddr).Port, pods: map[string]*podHost{}}
	server := &http.Server{Handler: p}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return p
}

// allowance is the time after an event within which a request may still arrive.
const allowance = 100 * time.Millisecond

// ServeHTTP answers as an engine does, and notes whether the pod should have been asked.
func (p *podHosts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	host, _, _ := net.SplitHostPort(r.Context().Value(http.LocalAddrContextKey).(net.Addr).String())
	p.mu.Lock()
	pod := p.pods[host]
	if pod == nil {
		pod = &podHost{gone: time.Unix(0, 0), killed: make(chan struct{})}
	}
	gone, unready := pod.gone, pod.unready
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.Method != http.MethodPost {
		switch r.URL.Path {
		case "/v1/models":
			io.WriteString(w, `{"data":[{"id":"small"}]}`)
		case "/metrics":
			io.WriteString(w, "vllm:num_requests_running{model_name=\"small\"} 0\nvllm:num_requests_waiting{model_name=\"small\"} 0\n")
		}
		return
	}
	p.asked.Add(1)
	if !gone.IsZero() {
		since := now.Sub(gone)
		if p.worst.Store(max(p.worst.Load(), int64(since))); since > allowance {
			p.late.Add(1)
		}
	}
	if !unready.IsZero() && now.Sub(unready) > allowance {
		p.unready.Add(1)
	}
	io.Copy(io.Discard, r.Body)
	select {
	case <-time.After(time.Duration(2+rand.IntN(30)) * time.Millisecond): // the time of an answer
	case <-pod.killed:
		panic(http.ErrAbortHandler)
	}
	io.WriteString(w, `{"id":"x","object":"chat.completion","model":"small","choices":[{"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`)
}

// set changes the test's record of a pod.
func (p *podHosts) set(ip string, change func(*podHost)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pods[ip] == nil {
		p.pods[ip] = &podHost{killed: make(chan struct{})}
	}
	change(p.pods[ip])
}

func (p *podHosts) begin(ip string) {
	p.set(ip, func(x *podHost) { *x = podHost{killed: make(chan struct{})} })
}

// kill ends a pod. If quiet, its address still answers, as if another pod had it, so that no failure shows its end.
func (p *podHosts) kill(ip string, quiet bool) {
	p.set(ip, func(x *podHost) {
		if x.gone = time.Now(); !quiet {
			close(x.killed)
		}
	})
}

// slotsScenario returns a scenario of one variant with slots for pods.
func slotsScenario(slots, port int, discovery string) string {
	return fmt.Sprintf(`
tasks: [{name: chat, total_ms: 5000, quality: {small: 1}}]
variants: [{name: small}]
hosts: [{name: gpu, memory: 8GiB}]
replicas: [{variant: small, host: gpu, slots: %d, memory: 90%%, selector: {app: small}, port: %d}]
profiles: [{variant: small, batch_ms: {1: 10, 64: 30}}]
workload: {output_tokens: {distribution: none}}
serving: {addr: "127.0.0.1:0", backend: upstream, fallback: least-work, discovery: {%s}, log: {level: error}}
`, slots, port, discovery)
}

// routerHere serves the scenario in this process, with engines of the source.
func routerHere(t *testing.T, text string, from sources) (url string, x *assembly) {
	t.Helper()
	s, err := scenario.Parse("slots.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Scenario: "slots.yaml", Text: []byte(text), Policy: "least-work", Engine: "native", NoTuning: true}
	x = &assembly{o: o, s: s, text: []byte(text), config: o.config(s), log: slog.New(slog.NewTextHandler(io.Discard, nil)), backends: NewBackends, sources: from, adminToken: "a-token-of-tests"}
	if _, err := x.assemble(); err != nil {
		x.close()
		t.Fatal(err)
	}
	end := discovers(t.Context(), x.finder)
	server := httptest.NewServer(x.server.Handler())
	t.Cleanup(func() {
		server.Close()
		end()
		x.close()
	})
	return server.URL, x
}

// churn starts and ends pods under load.
type churn struct {
	t       *testing.T
	cluster *apiserver.Cluster
	hosts   *podHosts
	alive   map[string]bool // pods by name; ready or not
	ready   map[string]bool
	rng     *rand.Rand
	ops     map[string]int
	ending  []string
}

func ipOf(i int) string { return fmt.Sprintf("127.1.%d.%d", i/200, 1+i%200) }

// step does one thing to one pod.
func (c *churn) step(ctx context.Context) {
	i := c.rng.IntN(*churnPods)
	name, ip := fmt.Sprint("pod-", i), ipOf(i)
	ready := 0
	for _, r := range c.ready {
		if r {
			ready++
		}
	}
	n := c.rng.IntN(10)
	if c.ready[name] && ready < *churnPods/3 { // something is there to answer
		return
	}
	switch {
	case !c.alive[name] && n > 2: // it stays away for a while
	case !c.alive[name]:
		c.hosts.begin(ip)
		must(c.t, c.cluster.AddPod(ctx, name, map[string]string{"app": "small"}), c.cluster.SetPod(ctx, name, ip, true))
		c.alive[name], c.ready[name] = true, true
		c.ops["came"]++
	case slices.Contains(c.ending, name):
		must(c.t, c.cluster.RemovePod(ctx, name))
		c.hosts.kill(ip, n%2 == 0)
		c.ending = slices.DeleteFunc(c.ending, func(x string) bool { return x == name })
		delete(c.alive, name)
		delete(c.ready, name)
		c.ops["gone after its grace"]++
	case n < 4:
		ready := !c.ready[name]
		if ready {
			c.hosts.set(ip, func(x *podHost) { x.unready = time.Time{} })
		}
		must(c.t, c.cluster.SetPod(ctx, name, ip, ready))
		if c.ready[name] = ready; !ready {
			c.hosts.set(ip, func(x *podHost) { x.unready = time.Now() })
		}
		c.ops["readiness"]++
	case n < 7:
		must(c.t, c.cluster.EndPod(ctx, name))
		c.hosts.set(ip, func(x *podHost) { x.unready = time.Now() })
		c.ending = append(c.ending, name)
		c.ready[name] = false
		c.ops["ending"]++
	case n < 9:
		must(c.t, c.cluster.RemovePod(ctx, name))
		c.hosts.kill(ip, n%2 == 0)
		delete(c.alive, name)
		delete(c.ready, name)
		c.ops["killed"]++
	}
}

// must fails the test at an error.
func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// load sends requests until the context ends, and counts the answers by status.
type load struct {
	mu       sync.Mutex
	statuses map[int]int
	reasons  map[string]int
}

func (l *load) run(ctx context.Context, url string) {
	client := &http.Client{}
	defer client.CloseIdleConnections()
	for ctx.Err() == nil {
		r, err := client.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"auto","messages":[{"role":"user","content":"well?"}]}`))
		status, reason := 0, ""
		if err == nil {
			body, _ := io.ReadAll(r.Body)
			r.Body.Close()
			if status = r.StatusCode; status != 200 {
				reason = string(body)
			}
		}
		l.mu.Lock()
		l.statuses[status]++
		if reason != "" && len(l.reasons) < 5 {
			l.reasons[reason]++
		}
		l.mu.Unlock()
	}
}

// Pods come, go, fail readiness and end with grace under load, with a real API server if one is built. No pod gets a
// request over 100 ms after it was gone or unready, no counter is negative, and the slots are the ready pods'.
func TestPodsComeAndGo(t *testing.T) {
	t.Run("fake", func(t *testing.T) { podsComeAndGo(t, apiserver.Fake()) })
	t.Run("real", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s, err := apiserver.Start(ctx, "../../.cache/apiserver", t.TempDir())
		if errors.Is(err, apiserver.ErrNone) {
			t.Skip(err)
		}
		must(t, err)
		t.Cleanup(s.Stop)
		c, err := apiserver.Real(ctx, s)
		must(t, err)
		podsComeAndGo(t, c)
	})
}

func podsComeAndGo(t *testing.T, cluster *apiserver.Cluster) {
	hosts := newPodHosts(t)
	url, x := routerHere(t, slotsScenario(*churnPods, hosts.port, "kubernetes: {namespace: default}"),
		func(c *settings.Config, groups []discovery.Group, log *slog.Logger) (string, discovery.Source, error) {
			return "kubernetes", discovery.Watching(cluster.Router, apiserver.Namespace, c, groups, log), nil
		})
	must(t, cluster.Watched(t.Context(), "pods"))
	c := &churn{t: t, cluster: cluster, hosts: hosts, alive: map[string]bool{}, ready: map[string]bool{}, rng: rand.New(rand.NewPCG(1, 1)), ops: map[string]int{}}
	for i := range *churnPods {
		name := fmt.Sprint("pod-", i)
		hosts.begin(ipOf(i))
		must(t, cluster.AddPod(t.Context(), name, map[string]string{"app": "small"}), cluster.SetPod(t.Context(), name, ipOf(i), true))
		c.alive[name], c.ready[name] = true, true
	}
	c.settled(x)
	ctx, stop := context.WithCancel(t.Context())
	l := &load{statuses: map[int]int{}, reasons: map[string]int{}}
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() { l.run(ctx, url) })
	}
	ledger := x.routing.core.Ledger()
	pace := time.NewTicker(5 * time.Millisecond) // the fake panics where it is ahead of its watchers by 100 events
	defer pace.Stop()
	begin, middle := time.Now(), usage{}
	for end := begin.Add(*churnFor); time.Now().Before(end); <-pace.C {
		if middle.heap == 0 && time.Since(begin) > *churnFor/2 {
			middle = used()
		}
		ledger.SetDrained(c.rng.IntN(*churnPods/6), c.rng.IntN(3) == 0) // as operators do
		c.step(t.Context())
		for i := range ledger.Table().Replicas {
			if n := ledger.InFlightOn(i); n < 0 {
				t.Fatalf("%d requests in flight on %s", n, ledger.Table().Replicas[i].Name)
			}
		}
	}
	for i := range *churnPods {
		ledger.SetDrained(i, false)
	}
	c.settled(x)
	after := used()
	stop()
	clients.Wait()
	if n := ledger.InFlight(); n != 0 {
		t.Errorf("%d requests in flight at the end", n)
	}
	t.Logf("%v; %d requests to pods, the latest %v after it was gone; answers %v; half-way %v, at the end %v", c.ops, hosts.asked.Load(), time.Duration(hosts.worst.Load()), l.statuses, middle, after)
	if after.heap > middle.heap*5/4+8<<20 || after.goroutines > middle.goroutines*5/4+100 {
		t.Errorf("memory grows: half-way %v, at the end %v", middle, after)
	}
	if hosts.late.Load() > 0 || hosts.unready.Load() > 0 {
		t.Errorf("later than %v after the event, %d requests came to pods that are gone, %d to pods that are not ready", allowance, hosts.late.Load(), hosts.unready.Load())
	}
	if bad := hosts.asked.Load() == 0 || len(l.statuses) != 1; bad {
		t.Errorf("answers %v: %v", l.statuses, l.reasons)
	}
}

// usage holds the memory and goroutines of the process.
type usage struct {
	heap       uint64
	goroutines int
}

func used() usage {
	runtime.GC()
	runtime.GC() // pools are emptied by the second one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{m.HeapAlloc, runtime.NumGoroutine()}
}

func (u usage) String() string {
	return fmt.Sprintf("%.1f MB, %d goroutines", float64(u.heap)/1e6, u.goroutines)
}

// settled waits until the slots are those of the ready pods.
func (c *churn) settled(x *assembly) {
	c.t.Helper()
	var want []string
	for name, ready := range c.ready {
		if ready {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	var got []string
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/admin/discovery", nil)
		r.Header.Set("Authorization", "Bearer a-token-of-tests")
		x.server.AdminHandler().ServeHTTP(w, r)
		var status struct {
			Slots []struct{ Engine, State string }
		}
		must(c.t, json.Unmarshal(w.Body.Bytes(), &status))
		got = got[:0]
		for _, s := range status.Slots {
			if s.State == "present" {
				got = append(got, s.Engine)
			}
		}
		if slices.Sort(got); slices.Equal(got, want) {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	c.t.Fatalf("slots are those of %v, want %v", got, want)
}

// Lines of a file lead requests to engines, and away from them.
func TestEnginesOfAFile(t *testing.T) {
	hosts := newPodHosts(t)
	path := filepath.Join(t.TempDir(), "endpoints.yaml")
	write := func(lines ...string) {
		must(t, os.WriteFile(path+".new", []byte(strings.Join(lines, "\n")), 0o600), os.Rename(path+".new", path))
	}
	line := func(i int) string {
		return fmt.Sprintf("- {variant: small, address: '%s:%d', name: pod-%d}", ipOf(i), hosts.port, i)
	}
	write(line(0), line(1))
	hosts.begin(ipOf(0))
	hosts.begin(ipOf(1))
	url, x := routerHere(t, slotsScenario(3, hosts.port, "file: "+path), usualSources)
	c := &churn{t: t, ready: map[string]bool{"pod-0": true, "pod-1": true}}
	c.settled(x)
	ask := func() string {
		r, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"auto","messages":[{"role":"user","content":"well?"}]}`))
		must(t, err)
		defer r.Body.Close()
		return fmt.Sprint(r.StatusCode, " ", r.Header.Get("X-Gearshift-Replica"))
	}
	if at := x.server.Engines().Addresses(); at[0] != fmt.Sprintf("%s:%d", ipOf(0), hosts.port) || at[2] != "" {
		t.Errorf("addresses %v", at)
	}
	write(line(1))
	c.ready = map[string]bool{"pod-1": true}
	c.settled(x)
	for range 5 {
		if got := ask(); got != "200 small@small-1" {
			t.Errorf("the answer is of %q, want 200 small@small-1", got)
		}
	}
	write("- nothing that can be read: [")
	write("[]")
	c.ready = nil
	c.settled(x)
	if got := ask(); got != "503 " {
		t.Errorf("without any engine: %q", got)
	}
	write(line(1), line(0)) // which get the slots that they had
	c.ready = map[string]bool{"pod-0": true, "pod-1": true}
	c.settled(x)
	if at := x.server.Engines().Addresses(); at[0] != fmt.Sprintf("%s:%d", ipOf(0), hosts.port) {
		t.Errorf("addresses %v", at)
	}
}

// A gateway looks up no names: a slot whose engine has one stays empty, and the cause is shown.
func TestNamesOfEnginesForGateways(t *testing.T) {
	source := new(discovery.Memory)
	text := strings.Replace(slotsScenario(2, 8000, "file: none.yaml"), "serving: {", `serving: {picker: {addr: "127.0.0.1:0"}, `, 1)
	_, x := routerHere(t, text, func(*settings.Config, []discovery.Group, *slog.Logger) (string, discovery.Source, error) {
		return "memory", source, nil
	})
	at := func(address string) discovery.Endpoint {
		return discovery.Endpoint{ID: address, Name: address, Address: address, Variant: "small", Ready: true}
	}
	source.Set([]discovery.Endpoint{at("gpu-6:8000"), at("127.0.0.1:8000")})
	c := &churn{t: t, ready: map[string]bool{"127.0.0.1:8000": true}}
	c.settled(x)
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/admin/discovery", nil)
	r.Header.Set("Authorization", "Bearer a-token-of-tests")
	x.server.AdminHandler().ServeHTTP(w, r)
	if want := `"address":"gpu-6:8000"`; !strings.Contains(w.Body.String(), want) || !strings.Contains(w.Body.String(), "a gateway looks up no names") {
		t.Errorf("the slots are %s, want one with %s and why it stays empty", w.Body, want)
	}
}
