//go:build unix

package main

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"gearshift/serving/engines/agents"
)

// front stands before the engine of a host, so that it sees the router's orders. It dies with the
// engine: its port refuses then, and its connections break.
type front struct {
	c          *chaos
	host, addr string
	process    *process // nil while it is dead
	stopped    bool
	server     *http.Server
	at         string // the engine itself

	mu     sync.Mutex // protects what follows
	newest uint64     // epoch of an accepted order
	orders int
}

func newFront(c *chaos, host string) *front {
	return &front{c: c, host: host, addr: freeAddr(c.t), at: freeAddr(c.t)}
}

// start starts the engine and stands before it.
func (f *front) start() {
	f.process = startProcess(f.c.t, "engine", "--scenario", f.c.scenario, "--host", f.host, "--addr", f.at, "--agent", "http://"+f.c.admin)
	f.process.listensWithin(f.c.t, 2*time.Minute)
	f.serve()
}

func (f *front) serve() {
	to := &url.URL{Scheme: "http", Host: f.at}
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:      &http.Transport{MaxIdleConnsPerHost: 64},
		FlushInterval:  -1,
		ErrorLog:       slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ModifyResponse: f.answered,
	}
	listener, err := net.Listen("tcp", f.addr)
	if err != nil {
		f.c.t.Fatal(err)
	}
	f.server = &http.Server{Handler: proxy, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go func() { _ = f.server.Serve(listener) }()
}

// answered looks at the orders that the engine has accepted.
func (f *front) answered(r *http.Response) error {
	path := r.Request.URL.Path
	load, unload := strings.HasSuffix(path, "/load"), strings.HasSuffix(path, "/unload")
	if !load && !unload || r.StatusCode/100 != 2 {
		return nil
	}
	epoch, err := strconv.ParseUint(r.Request.Header.Get(agents.HeaderEpoch), 10, 64)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.orders++
	switch {
	case err != nil:
		f.c.fault("%s got the order %s without an epoch", f.host, path)
	case epoch>>32 < f.newest>>32:
		f.c.fault("%s accepted an order of term %d after one of term %d", f.host, epoch>>32, f.newest>>32)
	default:
		f.newest = max(f.newest, epoch)
	}
	return nil
}

func (f *front) kill() {
	f.c.recovers(f.host) // of a stop
	f.c.befalls(f.host, killed)
	f.process.kill()
	_ = f.server.Close()
	f.judge()
	f.process, f.stopped = nil, false
}

func (f *front) signal(s syscall.Signal) {
	if f.stopped = s == syscall.SIGSTOP; f.stopped {
		f.c.befalls(f.host, stopped)
	}
	_ = f.process.command.Process.Signal(s)
}

// heal has the engine be there and run.
func (f *front) heal() {
	defer f.c.recovers(f.host)
	switch {
	case f.process == nil:
		f.start()
	case f.stopped:
		f.signal(syscall.SIGCONT)
	}
}

// judge reads in the log of an engine that has ended how its models were loaded.
func (f *front) judge() {
	loaded := map[string]bool{}
	for line := range strings.Lines(f.process.log.String()) {
		model := loggedValue(line, "model")
		switch {
		case strings.Contains(line, " msg=loaded "):
			if loaded[model] {
				f.c.fault("%s loaded %s twice", f.host, model)
			}
			loaded[model] = true
		case strings.Contains(line, " msg=unloaded "):
			loaded[model] = false
		case strings.Contains(line, "load failed") && strings.Contains(line, "memory"):
			f.c.fault("%s was to load more than it has memory for: %s", f.host, line)
		}
	}
}

// loggedValue is the value of a key in a line of a log.
func loggedValue(line, key string) string {
	_, rest, _ := strings.Cut(line, " "+key+"=")
	value, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	return value
}

// memory is what the engine's models hold, and what they may.
func (f *front) memory(at string) (held, bound float64, ok bool) {
	client := &http.Client{Timeout: time.Second}
	response, err := client.Get("http://" + at + "/metrics")
	if err != nil {
		return 0, 0, false
	}
	samples := samplesOf(response.Body)
	_ = response.Body.Close()
	bound, ok = samples["gearshift_engine_memory_bytes"]
	return samples["gearshift_engine_memory_held_bytes"], bound, ok
}
