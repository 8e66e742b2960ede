//go:build unix

package main

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gearshift/workloads"
)

// says waits until the process has logged a text.
func (p *process) says(t *testing.T, text string) {
	t.Helper()
	for late := time.Now().Add(30 * time.Second); !strings.Contains(p.log.String(), text); time.Sleep(10 * time.Millisecond) {
		select {
		case <-p.ended:
			t.Fatalf("the process ended: %v: %s", p.err, p.log)
		default:
		}
		if time.Now().After(late) {
			t.Fatalf("the process does not say %q: %s", text, p.log)
		}
	}
}

// endsSoon asks the process to end, which it must within a few seconds.
func (p *process) endsSoon(t *testing.T) {
	t.Helper()
	_ = p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		t.Errorf("SIGTERM does not end it: %s", p.log)
	}
}

// tinyFile is the scenario tiny as a file.
func tinyFile(t *testing.T) string {
	t.Helper()
	text, err := workloads.Scenario("tiny")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tiny.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// pipeInPlaceOf puts a pipe that nobody writes to where a file was.
func pipeInPlaceOf(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A pipe in the place of a file that is read again is a fault of the reload, and holds
// up nothing.
func TestPipesHoldUpNeitherReloadsNorTheEnd(t *testing.T) {
	for _, victim := range []string{"scenario", "keys", "store"} {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			path := tinyFile(t)
			keys := filepath.Join(filepath.Dir(path), "keys")
			if code := runQuietly(t, "key", "new", "somebody", "--keys", keys); code != 0 {
				t.Fatal("no key")
			}
			store := filepath.Join(filepath.Dir(path), "store.db")
			if err := os.WriteFile(store, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			p := startProcess(t, "serve", "--scenario", path, "--keys", keys, "--addr", "127.0.0.1:0", "--admin-addr", "off", "--store", store)
			addr := p.listens(t)
			pipeInPlaceOf(t, map[string]string{"scenario": path, "keys": keys, "store": store}[victim])
			for range 3 {
				_ = p.command.Process.Signal(syscall.SIGHUP)
			}
			p.says(t, "regular file")
			r, err := http.Get("http://" + addr + "/healthz")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if err := r.Body.Close(); err != nil || r.StatusCode != http.StatusOK {
				t.Errorf("healthz: %d, %v", r.StatusCode, err)
			}
			p.endsSoon(t)
		})
	}
}

// runQuietly runs a command here and returns its exit code.
func runQuietly(t *testing.T, args ...string) int {
	t.Helper()
	return run(t.Context(), args, io.Discard, io.Discard)
}

// A start that waits for a pipe ends at SIGTERM.
func TestAStartThatWaitsForAPipeEnds(t *testing.T) {
	t.Parallel()
	path := tinyFile(t)
	pipeInPlaceOf(t, path)
	p := startProcess(t, "serve", "--scenario", path, "--addr", "127.0.0.1:0", "--admin-addr", "off")
	time.Sleep(200 * time.Millisecond) // until it listens to signals
	p.endsSoon(t)
}

// serve --scenario <(…) reads the pipe once, and reloads what else there is.
func TestScenarioFromAPipe(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash, whose process substitution is tried here")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{command: exec.Command(bash, "-c", `exec "$0" serve --scenario <(cat "$1") --addr 127.0.0.1:0 --admin-addr off --store none.db`, self, tinyFile(t)),
		log: &processLog{addrs: make(chan string, 8)}, ended: make(chan struct{})}
	p.command.Dir = t.TempDir()
	p.start(t)
	p.listens(t)
	_ = p.command.Process.Signal(syscall.SIGHUP)
	p.says(t, "msg=reloaded by=SIGHUP")
	if text := p.log.String(); strings.Contains(text, "cannot reload") {
		t.Errorf("the pipe is read again: %s", text)
	}
	p.endsSoon(t)
}
