package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const testToken = "a-token-for-the-tests"

// steered is a router that serve runs, with its admin listener.
type steered struct {
	*served
	operators *served // the same router, asked as an operator
}

// steerTiny runs a router that can be steered.
func steerTiny(t *testing.T, args ...string) *steered {
	t.Helper()
	t.Setenv("GEARSHIFT_ADMIN_TOKEN", testToken)
	s := serveTiny(t, append([]string{"--admin-addr", "127.0.0.1:0"}, args...)...)
	m := regexp.MustCompile(`msg="admin listening" addr=(\S+)`).FindStringSubmatch(s.log.String())
	for deadline := time.Now().Add(10 * time.Second); m == nil && time.Now().Before(deadline); {
		m = regexp.MustCompile(`msg="admin listening" addr=(\S+)`).FindStringSubmatch(s.log.String())
	}
	if m == nil {
		t.Fatalf("there is no admin listener: %s", s.log)
	}
	return &steered{s, &served{url: "http://" + m[1], header: http.Header{"Authorization": {"Bearer " + testToken}}}}
}

// engineAt is an upstream server that answers with its name.
func engineAt(t *testing.T, name string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"%s","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}],"usage":{"completion_tokens":1}}`, name)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// upstreamScenario is tiny with all replicas at one upstream server.
func upstreamScenario(t *testing.T, url string, changes ...string) string {
	t.Helper()
	text := succeed(t, "scenario", "show", "tiny")
	var upstreams strings.Builder
	for _, m := range regexp.MustCompile(`(?m)^  (\S+@\S+) `).FindAllStringSubmatch(succeed(t, "scenario", "check", "tiny"), -1) {
		fmt.Fprintf(&upstreams, "    %s: {url: %q}\n", m[1], url)
	}
	text = strings.Replace(text, "  backend: simulated", "  upstreams:\n"+upstreams.String()+"  backend: upstream", 1)
	return strings.NewReplacer(changes...).Replace(text)
}

// A change of the file is taken by itself: here the engines move. A faulty file
// changes nothing, and is told with its line and key.
func TestServeReloads(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, second := engineAt(t, "first"), engineAt(t, "second")
	put(upstreamScenario(t, first))
	s := steerTiny(t, "--scenario", file, "--policy", "static:small")
	answer := func() string {
		_, _, text := s.ask(t, "POST", "/v1/chat/completions", `{"model":"auto","messages":[{"role":"user","content":"hi"}]}`)
		return text
	}
	if text := answer(); !strings.Contains(text, "first") {
		t.Fatalf("answered %s", text)
	}

	put(upstreamScenario(t, second, "max_body: 8MiB", "max_boddy: 3"))
	status, _, text := s.operators.ask(t, "POST", "/admin/reload", "")
	if status != http.StatusUnprocessableEntity || !regexp.MustCompile(`mine\.yaml:\d+: serving\.max_boddy: unknown key; did you mean \\"max_body\\"`).MatchString(text) {
		t.Errorf("a faulty file: status %d, %s", status, text)
	}
	if text := answer(); !strings.Contains(text, "first") {
		t.Errorf("after a fault, answered %s", text)
	}

	put(upstreamScenario(t, first, "max_body: 8MiB", "max_body: 3kB", "max_in_flight: 128", "max_in_flight: 3"))
	status, _, text = s.operators.ask(t, "POST", "/admin/reload", "")
	var out struct {
		Changed     []string `json:"changed"`
		NeedRestart []string `json:"need_restart"`
	}
	if err := json.Unmarshal([]byte(text), &out); status != http.StatusOK || err != nil {
		t.Fatalf("status %d, %s", status, text)
	}
	if fmt.Sprint(out.NeedRestart) != "[serving.max_in_flight]" || !strings.Contains(fmt.Sprint(out.Changed), "serving.max_body") {
		t.Errorf("reloaded %+v", out)
	}

	put(strings.Replace(upstreamScenario(t, first), first, second, 1)) // only the first replica
	if _, _, text = s.operators.ask(t, "POST", "/admin/reload", ""); !strings.Contains(text, `"need_restart":["serving.upstreams"]`) {
		t.Errorf("replicas that part: %s", text)
	}

	put(upstreamScenario(t, second))
	deadline := time.Now().Add(15 * time.Second)
	for !strings.Contains(answer(), "second") && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	if text := answer(); !strings.Contains(text, "second") {
		t.Errorf("the engines have moved, but %s answers: %s", text, s.log)
	}
	s.end(t)
}

// A replica that is set to cold in the file gets no more requests, and is up again
// once it is put back; other memory takes a restart.
func TestServeReloadsReplicas(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	text := strings.Replace(succeed(t, "scenario", "show", "tiny"), "\nserving:\n", "\nserving:\n  watch: 0s\n", 1)
	put := func(changes ...string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(strings.NewReplacer(changes...).Replace(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put()
	s := steerTiny(t, "--scenario", file)
	reload := func(want, replica, state string) {
		t.Helper()
		if _, _, answer := s.operators.ask(t, "POST", "/admin/reload", ""); !strings.Contains(answer, want) {
			t.Errorf("%s, want %s", answer, want)
		}
		found := regexp.MustCompile(`"name":"` + replica + `".*?"lifecycle":\{"state":"(\w+)"`)
		var got []string
		for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			_, _, status := s.ask(t, "GET", "/v1/gearshift/status", "")
			if got = found.FindStringSubmatch(status); got != nil && got[1] == state {
				return
			}
		}
		t.Errorf("%s is %v, want %s", replica, got, state)
	}
	put("memory: 80%}", "memory: 80%, state: cold}")
	reload(`"changed":["replicas.large@gpu0"],"need_restart":[]`, "large@gpu0", "cold")
	put("memory: 80%}", "memory: 70%, state: cold}")
	reload(`"changed":[],"need_restart":["replicas"]`, "large@gpu0", "cold")
	put()
	reload(`"changed":["replicas.large@gpu0"],"need_restart":[]`, "large@gpu0", "up")
	s.end(t)
}

// reloading runs tiny with lines of its own in the serving section. Reload puts others
// in their place, and wants something of the answer.
func reloading(t *testing.T, lines string) (s *steered, reload func(lines, want string)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mine.yaml")
	text := succeed(t, "scenario", "show", "tiny")
	put := func(lines string) {
		t.Helper()
		next := strings.Replace(text, "\nserving:\n", "\nserving:\n  watch: 0s\n  "+lines+"\n", 1)
		if err := os.WriteFile(file, []byte(next), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(lines)
	s = steerTiny(t, "--scenario", file, "--policy", "static:small")
	return s, func(lines, want string) {
		t.Helper()
		put(lines)
		if _, _, text := s.operators.ask(t, "POST", "/admin/reload", ""); !strings.Contains(text, want) {
			t.Errorf("%s: %s", lines, text)
		}
	}
}

// The gate is another from the next request on, for those who wait too.
func TestServeReloadsWhatItSheds(t *testing.T) {
	const strict = "overload: {shed: hopeless, pace: 1.0e-6, max_wait: 10m, wait_share: 1}"
	s, reload := reloading(t, strict)
	route := func(want int) {
		t.Helper()
		if status, _, text := s.ask(t, "POST", "/v1/gearshift/route", `{"task":"chat","prompt_tokens":30}`); status != want {
			t.Errorf("status %d, want %d: %s", status, want, text)
		}
	}
	route(http.StatusOK) // the host is idle
	route(http.StatusTooManyRequests)
	reload("overload: {shed: never, kv: 99}", "overload.kv: 99 must be a share")
	route(http.StatusTooManyRequests)
	reload("overload: {shed: never}", `"changed":["serving.overload.max_wait","serving.overload.pace","serving.overload.shed","serving.overload.wait_share"],"need_restart":[]`)
	route(http.StatusOK)
	reload("overload: {pace: 1.0e-6}", `"changed":["serving.overload.pace","serving.overload.shed"]`)
	route(http.StatusTooManyRequests)
	reload("overload: {pace: 5}", `"changed":["serving.overload.pace"]`)
	route(http.StatusOK)
	reload("overload: {pace: 5, kv: 1.0e-9}", `"changed":["serving.overload.kv"]`)
	route(http.StatusTooManyRequests)

	reload(strict, "serving.overload.kv")
	waits := make(chan int)
	go func() {
		status, _, _ := s.ask(t, "POST", "/v1/chat/completions", `{"model":"auto","messages":[{"role":"user","content":"hi"}]}`)
		waits <- status
	}()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if _, _, text := s.ask(t, "GET", "/v1/gearshift/status", ""); strings.Contains(text, `"waiting":1`) {
			break
		}
	}
	reload("overload: {shed: never}", "serving.overload.shed")
	if status := <-waits; status != http.StatusOK {
		t.Errorf("what waited got status %d", status)
	}
	s.end(t)
}

// What a reload says is written as the new level has it.
func TestServeReloadsTheLevelOfItsLog(t *testing.T) {
	s, reload := reloading(t, "log: {level: info}")
	reload("log: {level: loud}", "log.level: unknown level")
	for _, c := range []struct {
		level string
		lines int // of reloads, so far
	}{{"error", 0}, {"info", 1}, {"warn", 1}, {"debug", 2}} {
		reload("log: {level: "+c.level+"}", `"changed":["serving.log.level"],"need_restart":[]`)
		if n := strings.Count(s.log.String(), "msg=reloaded by=admin changed=serving.log.level"); n != c.lines {
			t.Errorf("at the level of %s: %d lines, want %d: %s", c.level, n, c.lines, s.log)
		}
	}
	reload("log: {level: debug, format: json}", `"need_restart":["serving.log.format"]`)
	s.end(t)
}
