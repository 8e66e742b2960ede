package main

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestKeyCommands(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	fail(t, []string{"key", "ls", "--keys", file}, "cannot read keys")
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
