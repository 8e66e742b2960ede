package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A measurement of which a test is skipped, or that finds none, fails and says why; others end as go test does.
func TestMeasurementsThatMeasureNothingFail(t *testing.T) {
	bin := t.TempDir()
	const go1 = "#!/bin/sh\nif [ \"$1\" = env ]; then echo 0; exit; fi\nprintf '%s' \"$SAID\"\nexit \"$CODE\"\n"
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(go1), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		said, code string
		fails      bool
		why        string
	}{
		"a test that passes":       {"=== RUN   TestA\n--- PASS: TestA (1.00s)\nPASS\nok  \tx\t1.0s\n", "0", false, ""},
		"a test that fails":        {"=== RUN   TestA\n--- FAIL: TestA (1.00s)\nFAIL\n", "1", true, ""},
		"a test that is skipped":   {"=== RUN   TestA\n    a_test.go:15: install X\n--- SKIP: TestA (0.00s)\nPASS\nok  \tx\t0.0s\n", "0", true, "measure: skipped TestA: install X\n"},
		"one of two":               {"--- PASS: TestB (0.00s)\n    a_test.go:15: install X\n--- SKIP: TestA (0.00s)\nPASS\n", "0", true, "measure: skipped TestA: install X\n"},
		"a part of a test":         {"    --- SKIP: TestA/part (0.00s)\n        a_test.go:9: install Y\n--- PASS: TestA (0.00s)\nPASS\n", "0", true, "measure: skipped TestA/part: "},
		"no test":                  {"testing: warning: no tests to run\nPASS\nok  \tx\t0.0s\n", "0", true, "measure: nothing was measured: no test or benchmark matches\n"},
		"a benchmark":              {"BenchmarkA-2   \t 100\t 10 ns/op\nPASS\n", "0", false, ""},
		"a benchmark of two":       {"--- SKIP: BenchmarkB\n    a_test.go:15: fewer than two cores\nBenchmarkA-2   \t 100\t 10 ns/op\nPASS\n", "0", false, "measure: skipped BenchmarkB"},
		"a benchmark that is none": {"PASS\nok  \tx\t0.0s\n", "0", true, "measure: nothing was measured"},
	} {
		t.Run(name, func(t *testing.T) {
			run := exec.Command(root+"/scripts/measure.sh", "-v", "./x")
			run.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "SAID="+c.said, "CODE="+c.code)
			var out, words strings.Builder
			run.Stdout, run.Stderr = &out, &words
			if err := run.Run(); (err != nil) != c.fails {
				t.Errorf("%v; want a failure: %t", err, c.fails)
			}
			if out.String() != c.said || !strings.Contains(words.String(), c.why) || c.why == "" && words.String() != "" {
				t.Errorf("passed on %q, and said %q; want %q", out.String(), words.String(), c.why)
			}
		})
	}
}

// Each command that has a test measure, by a variable GEARSHIFT_…, runs it by the script.
func TestMeasurementsRunByTheScript(t *testing.T) {
	scripts, err := filepath.Glob(root + "/scripts/*.sh")
	if err != nil {
		t.Fatal(err)
	}
	measures, found := regexp.MustCompile(`(?m)^\s*GEARSHIFT_[A-Z_]+=(?:\\\n|.)*`), 0
	for _, path := range append(scripts, root+"/Makefile") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range measures.FindAllString(string(text), -1) {
			if strings.Contains(command, "go test") {
				t.Errorf("%s: %q; want scripts/measure.sh, which fails where nothing was measured", path, strings.TrimSpace(command))
			}
			if strings.Contains(command, "measure.sh") {
				found++
			}
		}
	}
	if found < 10 {
		t.Errorf("%d measurements found; want those of the Makefile and its scripts", found)
	}
}

// A pattern that no benchmark has fails at once, with one line.
func TestBenchNamesAPatternThatMatchesNothing(t *testing.T) {
	out, err := exec.Command(root+"/scripts/bench.sh", "NoSuch/size|Nor").CombinedOutput()
	want := "bench: no benchmark matches BENCH=NoSuch/size|Nor; list them: git grep -h '^func Benchmark'\n"
	if err == nil || string(out) != want {
		t.Errorf("%v: %q; want a failure and %q", err, out, want)
	}
}
