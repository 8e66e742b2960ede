package main

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func TestKeyCommands(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	fail(t, []string{"key", "ls", "--keys", file}, "cannot read keys", "gearshift key new NAME --keys FILE makes one")
	code, secret, stderr := gearshift(t, "key", "new", "alice", "--rate", "2.5", "--concurrency", "4", "--keys", file)
	secret = strings.TrimSpace(secret)
	if code != 0 || !strings.HasPrefix(secret, "gs-") || strings.Contains(stderr, secret) {
		t.Fatalf("exit code %d: %q, %q", code, secret, stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(text), secret) {
		t.Fatalf("%v: %s", err, text)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := errors.Join(os.WriteFile(file, append([]byte("# staff\n"), text...), 0), os.Chmod(file, 0o640)); err != nil {
		t.Fatal(err)
	}
	succeed(t, "key", "new", "batch", "--keys", file)
	fail(t, []string{"key", "new", "alice", "--keys", file}, `"alice" has a key in `+file)
	fail(t, []string{"key", "new", "a b", "--keys", file}, `"a b" cannot name a key`)
	fail(t, []string{"key", "new", "c", "--burst", "3", "--keys", file}, "no meaning without a rate")
	fail(t, []string{"key", "rm", "nobody", "--keys", file}, `no key of "nobody"`)
	if out := succeed(t, "key", "ls", "--keys", file); !strings.Contains(out, "alice  2.5   -      4") || !strings.Contains(out, "batch  -     -      -") {
		t.Errorf("listed\n%s", out)
	}

	s := serveTiny(t, "--policy", "static:small", "--keys", file)
	if status, _, text := s.ask(t, "GET", "/v1/models", ""); status != http.StatusUnauthorized {
		t.Errorf("without a key: status %d, %s", status, text)
	}
	s.header = http.Header{"Authorization": {"Bearer " + secret}}
	if status, _, text := s.ask(t, "GET", "/v1/models", ""); status != http.StatusOK {
		t.Errorf("with the key: status %d, %s", status, text)
	}
	s.end(t)
	if strings.Contains(s.log.String(), secret) {
		t.Error("the log tells the key")
	}

	succeed(t, "key", "rm", "alice", "--keys", file)
	text, err = os.ReadFile(file)
	if err != nil || strings.Contains(string(text), "alice") || !strings.HasPrefix(string(text), "# staff\n{") {
		t.Errorf("%v: %s", err, text)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// Keys that are made and removed at the same time are all kept, and all gone.
func TestKeysMadeAtTheSameTimeAreAllKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	const n = 16
	all := func(command string) {
		var each sync.WaitGroup
		for i := range n {
			each.Go(func() {
				if code, _, stderr := gearshift(t, "key", command, "user-"+strconv.Itoa(i), "--keys", file); code != 0 {
					t.Errorf("key %s: exit code %d: %s", command, code, stderr)
				}
			})
		}
		each.Wait()
	}
	all("new")
	if got := strings.Count(succeed(t, "key", "ls", "--keys", file), "user-"); got != n {
		t.Errorf("%d keys, want %d", got, n)
	}
	all("rm")
	if got := strings.Count(succeed(t, "key", "ls", "--keys", file), "user-"); got != 0 {
		t.Errorf("%d keys, want none", got)
	}
}

// A key that could not be shown opens nothing, and its name is free.
func TestKeyThatNobodySawIsNotKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	var stderr strings.Builder
	code := run(t.Context(), []string{"key", "new", "alice", "--keys", file}, brokenOutput{}, &stderr)
	if code != 1 || !strings.Contains(stderr.String(), "cannot show the key, so that it is not kept: no space") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	succeed(t, "key", "new", "alice", "--keys", file)
}

// brokenOutput is a full disk, or a pipe that nobody reads.
type brokenOutput struct{}

func (brokenOutput) Write([]byte) (int, error) { return 0, errors.New("no space") }

// A key's classes, models and budgets are kept, listed and refused like its other limits.
func TestKeysWithGrants(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	succeed(t, "key", "new", "alice", "--keys", file, "--tokens-per-day", "100000", "--tokens-per-month", "2000000", "--classes", "batch,urgent", "--models", "small")
	out := succeed(t, "key", "ls", "--keys", file)
	for _, want := range []string{"TOKENS/DAY", "100000", "2000000", "batch,urgent", "small"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	fail(t, []string{"key", "new", "bob", "--keys", file, "--models", "small,small"}, `models: "small" is listed twice`)
	fail(t, []string{"key", "new", "bob", "--keys", file, "--tokens-per-day", "-1"}, "tokens_per_day: -1")
}
