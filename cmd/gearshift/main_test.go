package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gearshift/internal/etcd/etcdtest"
	"gearshift/internal/scenario"
)

// TestMain lets the test binary be the gearshift command, for the tests that
// need a process of its own to kill, or an etcd to kill.
func TestMain(m *testing.M) {
	if os.Getenv("GEARSHIFT_TEST_MAIN") != "" {
		if len(os.Args) == 4 && os.Args[1] == "test-etcd" {
			etcdtest.Main(os.Args[2], os.Args[3])
			os.Exit(1)
		}
		main()
	}
	os.Exit(m.Run())
}

// gearshift runs the command and returns its exit code and outputs.
func gearshift(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(context.Background(), args, &out, &err)
	return code, out.String(), err.String()
}

func storePath(t *testing.T) string { return filepath.Join(t.TempDir(), "policies.db") }

// succeed runs the command and returns what it printed; it must exit with 0.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := gearshift(t, args...)
	if code != 0 {
		t.Fatalf("gearshift %s: exit code %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// fail runs the command, which must exit with 1 and print one line, holding all
// of the given words, and nothing on standard output.
func fail(t *testing.T, args []string, words ...string) {
	t.Helper()
	code, stdout, stderr := gearshift(t, args...)
	line := strings.TrimSuffix(stderr, "\n")
	if code != 1 || stdout != "" || strings.Contains(line, "\n") || line == "" {
		t.Errorf("gearshift %s: exit code %d, standard output %q, error %q: want 1, nothing, and one line", strings.Join(args, " "), code, stdout, stderr)
	}
	for _, w := range words {
		if !strings.Contains(line, w) {
			t.Errorf("gearshift %s: error %q does not say %q", strings.Join(args, " "), line, w)
		}
	}
}

// write puts a file into a folder of the test's own.
func write(t *testing.T, name, text string) string {
	t.Helper()
	return into(t, t.TempDir())(name, text)
}

// into puts files into a folder.
func into(t *testing.T, dir string) func(name, text string) (path string) {
	return func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
}

// edited is a built-in scenario with one piece of its text replaced.
func edited(t *testing.T, name, from, to string) string {
	t.Helper()
	text := succeed(t, "scenario", "show", name)
	if !strings.Contains(text, from) {
		t.Fatalf("scenario %s does not have %q", name, from)
	}
	return write(t, "edited.yaml", strings.Replace(text, from, to, 1))
}

// scenarioOf loads a scenario for a test.
func scenarioOf(t testing.TB, ref string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Load(ref)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
