package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Two engines and no file: the first request is answered, and what was guessed can be seen and kept.
func TestServeEngines(t *testing.T) {
	tiny := scenarioOf(t, "tiny")
	s := serveThese(t, "--engine", "gpu0="+engineOf(t, tiny, "large@gpu0"), "--engine", "gpu0="+engineOf(t, tiny, "small@gpu0"), "--admin-addr", "127.0.0.1:0")
	status, header, body := s.ask(t, "POST", "/v1/chat/completions", `{"model": "auto", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}`)
	if status != http.StatusOK || header.Get("X-Gearshift-Variant") == "" {
		t.Fatalf("%d %v: %s", status, header, body)
	}
	for _, want := range []string{"small, large", "guess: even steps", "guess: 1.2 times", "as the engines report"} {
		if !strings.Contains(s.log.String(), want) {
			t.Errorf("does not print %q:\n%s", want, s.log)
		}
	}
	var asked sync.WaitGroup
	for range 60 {
		asked.Go(func() {
			s.ask(t, "POST", "/v1/chat/completions", `{"model": "small", "stream": true, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 12}`)
		})
	}
	asked.Wait()
	admin := "http://" + adminListening.FindStringSubmatch(s.log.String())[1]
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(20 * time.Second); !strings.Contains(succeed(t, "scenario", "save", "--admin", admin, "-o", "-"), "# fitted to "); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("nothing is learned of 60 answers: %s", s.log)
		}
	}
	out := filepath.Join(t.TempDir(), "kept.yaml")
	succeed(t, "scenario", "save", "--admin", admin, "-o", out)
	if kept := scenarioOf(t, out); kept.Variants[1].Name != "large" || kept.Tasks[0].DeadlineMS <= 0 {
		t.Errorf("%+v", kept.Tasks)
	}
	succeed(t, "scenario", "check", out, "--strict")
	fail(t, []string{"scenario", "save", "--admin", admin, "-o", out}, "already exists", "--force")
	s.end(t)
}

// What is wrong with engines is said in one line, before anything listens.
func TestServeRefusesEngines(t *testing.T) {
	at := engineOf(t, scenarioOf(t, "tiny"), "small@gpu0")
	again := engineOf(t, scenarioOf(t, "tiny"), "small@gpu0")
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"--scenario", "tiny", "--engine", at}, []string{"--scenario tiny and --engine " + at, "want one of them"}},
		{[]string{"--engine", "http://127.0.0.1:1"}, []string{"http://127.0.0.1:1 does not answer"}},
		{[]string{"--engine", "gpu0=" + at, "--engine", "gpu0=" + again}, []string{"host gpu0 has the model small twice", at, again}},
		{[]string{"--engine", at, "--key-env", "GEARSHIFT_NO_SUCH_KEY"}, []string{"--key-env GEARSHIFT_NO_SUCH_KEY", "empty"}},
		{[]string{"--key-env", "HOME"}, []string{"--key-env is for --engine"}},
	} {
		fail(t, append([]string{"serve"}, c.args...), c.want...)
	}
}
