package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gearshift/internal/etcd/etcdtest"
)

// sharedRouter is a router in a process, started again at the same addresses after it was killed.
type sharedRouter struct {
	*testing.T
	name        string
	scenario    string
	store       string
	prefix      []string
	addr, admin string
	p           *process
	life        atomic.Int64 // odd while it is up: a request of one life must be answered
}

// start starts it, and waits until it answers.
func (r *sharedRouter) start() {
	r.Helper()
	r.p = startPrefixed(r.T, r.prefix, "serve", "--scenario", r.scenario, "--store", r.store, "--addr", r.addr, "--admin-addr", r.admin)
	r.p.listens(r.T)
	etcdtest.Eventually(r, r.name+" answers", func() bool { _, _, err := r.ask(); return err == nil && r.metrics() != "" })
	r.life.Add(1)
}

// die kills it at once.
func (r *sharedRouter) die() {
	r.life.Add(1)
	r.p.kill()
}

var sharedClient = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 8}}

// ask sends a request, which must be answered.
func (r *sharedRouter) ask() (took time.Duration, policy string, err error) {
	began := time.Now()
	request, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "http://"+r.addr+"/v1/chat/completions", strings.NewReader(`{"model":"auto","messages":[{"role":"user","content":"x"}],"max_tokens":2}`))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := sharedClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", answer.StatusCode, text)
	}
	return time.Since(began), answer.Header.Get("X-Gearshift-Policy"), err
}

// metrics returns what the router reports of itself; empty if it does not answer.
func (r *sharedRouter) metrics() string {
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://"+r.admin+"/metrics", nil)
	if err != nil {
		return ""
	}
	request.Header.Set("Authorization", "Bearer "+testToken)
	answer, err := sharedClient.Do(request)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return ""
	}
	return string(text)
}

// leadership returns whether a router says that it acts, and its term.
func leadership(metrics string) (acts bool, term float64) {
	for line := range strings.Lines(metrics) {
		_, _ = fmt.Sscanf(line, "gearshift_leader_term %g", &term)
		acts = acts || line == "gearshift_leader 1\n"
	}
	return acts, term
}

func (r *sharedRouter) acts() bool { acts, _ := leadership(r.metrics()); return acts }

func (r *sharedRouter) term() float64 { _, term := leadership(r.metrics()); return term }

// sharedWatch sends requests to both routers and asks both whether they act, until it is ended.
type sharedWatch struct {
	stop    chan struct{}
	done    sync.WaitGroup
	samples int
	both    []string // moments at which two acted

	mu       sync.Mutex // protects what follows
	answered map[string]int
	failed   []string
	slowest  time.Duration
}

func watchShared(a, b *sharedRouter) *sharedWatch {
	w := &sharedWatch{stop: make(chan struct{}), answered: map[string]int{}}
	for _, r := range []*sharedRouter{a, b} {
		w.done.Go(func() { w.each(20*time.Millisecond, func() { w.request(r) }) })
	}
	w.done.Go(func() { w.each(5*time.Millisecond, func() { w.sample(a, b) }) })
	a.Cleanup(w.end)
	return w
}

func (w *sharedWatch) each(pause time.Duration, do func()) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
			do()
		}
	}
}

// request sends a request to a router that is up, and counts it unless the router is killed meanwhile.
func (w *sharedWatch) request(r *sharedRouter) {
	life := r.life.Load()
	if life%2 == 0 {
		return
	}
	took, _, err := r.ask()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case r.life.Load() != life:
	case err != nil:
		w.failed = append(w.failed, r.name+": "+err.Error())
	default:
		w.answered[r.name]++
		w.slowest = max(w.slowest, took)
	}
}

// sample notes whether two routers act at one moment: the first before and after the second was asked, in one term.
func (w *sharedWatch) sample(a, b *sharedRouter) {
	w.samples++
	before, term := leadership(a.metrics())
	if !before {
		return
	}
	second, other := leadership(b.metrics())
	if after, again := leadership(a.metrics()); second && after && again == term {
		w.both = append(w.both, fmt.Sprintf("%s in term %g, %s in term %g", a.name, term, b.name, other))
	}
}

// end ends the watch.
func (w *sharedWatch) end() {
	select {
	case <-w.stop:
	default:
		close(w.stop)
	}
	w.done.Wait()
}

// report ends the watch, and prints what was seen.
func (x *sharedFleet) report() {
	w := x.watch
	w.end()
	for _, kind := range slices.Sorted(maps.Keys(x.took)) {
		list := x.took[kind]
		slices.Sort(list)
		x.Logf("%-29s %3d times, median %.2f s, longest %.2f s", kind, len(list), list[len(list)/2].Seconds(), list[len(list)-1].Seconds())
	}
	x.Logf("requests answered: %v, the slowest in %.2f s; failed: %d", w.answered, w.slowest.Seconds(), len(w.failed))
	x.Logf("asked %d times who acts; two acted %d times", w.samples, len(w.both))
	if len(w.failed) > 0 {
		x.Errorf("%d requests were not answered, such as %q", len(w.failed), w.failed[0])
	}
	if len(w.both) > 0 {
		x.Errorf("two acted at one moment: %q", w.both)
	}
	if w.answered[x.cutOff.name] == 0 || w.answered[x.free.name] == 0 || w.samples == 0 {
		x.Error("nothing was sent, or nothing asked")
	}
}
