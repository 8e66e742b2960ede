package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// served is a router that the serve command runs, on a free port.
type served struct {
	url  string
	log  *serveLog
	stop context.CancelFunc
	code chan int
	// header goes with each request that the test asks.
	header http.Header
}

// serveLog keeps what serve prints, and tells the address once it listens.
type serveLog struct {
	mu   sync.Mutex
	text bytes.Buffer
	addr chan string // room for one
}

var listening = regexp.MustCompile(`msg=listening addr=(\S+)`)

func (l *serveLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := listening.FindSubmatch(p); m != nil {
		l.addr <- string(m[1])
	}
	return l.text.Write(p)
}

func (l *serveLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// serveTiny starts the server and returns once it is ready.
func serveTiny(t *testing.T, args ...string) *served {
	t.Helper()
	return serveThese(t, append([]string{"--scenario", "tiny", "--admin-addr", "off"}, args...)...)
}

// serveThese starts the server with these flags, and returns once it is ready.
func serveThese(t *testing.T, args ...string) *served {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s := &served{log: &serveLog{addr: make(chan string, 1)}, stop: stop, code: make(chan int, 1)}
	args = append([]string{"serve", "--addr", "127.0.0.1:0", "--store", filepath.Join(t.TempDir(), "none.db")}, args...)
	go func() { s.code <- run(ctx, args, io.Discard, s.log) }()
	t.Cleanup(stop)
	deadline := time.After(10 * time.Second)
	select {
	case addr := <-s.log.addr:
		s.url = "http://" + addr
	case code := <-s.code:
		t.Fatalf("serve ended with exit code %d: %s", code, s.log)
	case <-deadline:
		t.Fatalf("serve does not listen: %s", s.log)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if status, _, _ := s.ask(t, "GET", "/readyz", ""); status == http.StatusOK {
			return s
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("the server is not ready: %s", s.log)
		}
	}
}

// ask sends one request.
func (s *served) ask(t *testing.T, method, path, body string) (status int, header http.Header, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if s.header != nil {
		r.Header = s.header.Clone()
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(all)
}

// end interrupts the server, which must stop in order.
func (s *served) end(t *testing.T) {
	t.Helper()
	http.DefaultClient.CloseIdleConnections()
	s.stop()
	select {
	case code := <-s.code:
		if code != 0 {
			t.Errorf("exit code %d: %s", code, s.log)
		}
	case <-time.After(10 * time.Second):
		t.Errorf("serve does not end: %s", s.log)
	}
}

func TestServeAndReplay(t *testing.T) {
	s := serveTiny(t, "--policy", "static:small")
	const rest = `"messages":[{"role":"user","content":"how do gears turn"}],"max_tokens":3}`
	for _, c := range []struct{ model, variant, policy string }{{"auto", "small", "static:small"}, {"large", "large", "pinned"}} {
		status, header, text := s.ask(t, "POST", "/v1/chat/completions", `{"model":"`+c.model+`",`+rest)
		if status != http.StatusOK || header.Get("X-Gearshift-Variant") != c.variant || header.Get("X-Gearshift-Policy") != c.policy || !strings.Contains(text, `"chat.completion"`) {
			t.Errorf("model %s: status %d, header %v, %s", c.model, status, header, text)
		}
	}
	_, _, text := s.ask(t, "POST", "/v1/gearshift/route", `{"task":"search"}`)
	var route struct{ Lease, Variant, Replica string }
	if err := json.Unmarshal([]byte(text), &route); err != nil || route.Variant != "small" || route.Replica != "small@gpu0" {
		t.Errorf("route: %s", text)
	}
	if status, _, text := s.ask(t, "POST", "/v1/gearshift/route/"+route.Lease+"/end", ""); status != http.StatusOK {
		t.Errorf("end of the route: status %d, %s", status, text)
	}

	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	succeed(t, "workload", "gen", "poisson:20", "--scenario", "tiny", "--requests", "30", "--out", trace)
	var report struct {
		Requests, Completed int
		Share               map[string]float64
		Errors              map[string]int
	}
	out := succeed(t, "replay", "--scenario", "tiny", "--url", s.url, "--trace", trace, "--format", "json")
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Requests != 30 || report.Completed != 30 || len(report.Errors) != 0 || report.Share["small"] != 1 {
		t.Errorf("replay: %v, %s", err, out)
	}
	_, _, text = s.ask(t, "GET", "/metrics", "")
	for _, line := range []string{`gearshift_policy_info{policy="static:small",version=""} 1`, `gearshift_in_flight{replica="small@gpu0",variant="small"} 0`, "gearshift_requests_total{"} {
		if !strings.Contains(text, line) {
			t.Errorf("metrics have no %s", line)
		}
	}
	s.end(t)
}

// Tasks that the router does not have are refused before anything is sent. Without a policy serve tells how to
// train one.
func TestReplayOfAnotherScenario(t *testing.T) {
	s := serveTiny(t)
	trace := write(t, "trace.jsonl", `{"at_s":0,"prompt_tokens":9,"output_tokens":9}`+"\n"+`{"at_s":0.01,"prompt_tokens":9,"output_tokens":9}`+"\n")
	code, out, stderr := gearshift(t, "replay", "--url", s.url, "--trace", trace)
	if code != 1 || out != "" || !strings.Contains(stderr, `it has no task "hellaswag" of the scenario; it has chat, search`) {
		t.Errorf("exit code %d, %s\n%s", code, out, stderr)
	}
	s.end(t)
	if log := s.log.String(); !strings.Contains(log, "gearshift train --scenario tiny") {
		t.Errorf("no word on how to train a policy: %s", log)
	}
}
