package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Rounds that differ by more than the two sides do are compared one by one.
func TestPaired(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	before := write("before", "BenchmarkA 1 100 ns/op 7 answers/s\nBenchmarkA 1 1000 ns/op 9 answers/s\nBenchmarkA 1 10 ns/op 0 answers/s\n")
	after := write("after", "BenchmarkA 1 110 ns/op 7 answers/s\nBenchmarkA 1 1100 ns/op 9 answers/s\nBenchmarkA 1 11 ns/op 3 answers/s\n")
	var out bytes.Buffer
	if err := paired(&out, before, after); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"A ns/op ", "+10.0 % (+10.0 to +10.0)", "A answers/s", "+0.0 % (+0.0 to +0.0)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	short := write("short", "BenchmarkA 1 110 ns/op\n")
	if err := paired(&out, before, short); err == nil || !strings.Contains(err.Error(), "A ns/op: 3 rounds before and 1 after") {
		t.Errorf("%v", err)
	}
}
