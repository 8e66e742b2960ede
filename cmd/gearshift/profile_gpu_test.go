package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gearshift/internal/calibrate/profiling"
	"gearshift/internal/scenario"
)

// gpuTable is a small table of a device on which nobody slows anybody.
func gpuTable() string {
	var b strings.Builder
	b.WriteString(`{"kind":"machine","version":1,"date":"2026-01-02","device":"cuda","gpu":"made up","graphs":true,"cores":8}` + "\n")
	b.WriteString(`{"kind":"memory","gpu_memory_bytes":40000000000}` + "\n")
	for i, m := range []string{"small", "large"} {
		size := float64(1 + 4*i)
		fmt.Fprintf(&b, `{"kind":"model","model":"%s","weight_bytes":%d,"kv_bytes_per_token":%d}`+"\n", m, 1_000_000_000*(1+4*i), 40_000*(1+i))
		for _, n := range []int{1, 4, 16} {
			for _, context := range []int{128, 512} {
				gpu := size*(1+0.01*float64(n-1)) + 1e-4*size*float64(n*context)
				fmt.Fprintf(&b, `{"kind":"decode","model":"%s","batch":%d,"context":%d,"step_ms":%g,"gpu_ms":%g,"graph":true}`+"\n", m, n, context, gpu+0.1, gpu)
			}
		}
		for _, n := range []int{16, 256, 1024} {
			gpu := max(size, 0.02*size*float64(n))
			fmt.Fprintf(&b, `{"kind":"prefill","model":"%s","tokens":%d,"step_ms":%g,"gpu_ms":%g,"graph":true}`+"\n", m, n, gpu+0.1, gpu)
		}
	}
	for _, n := range []int{1, 4, 16} {
		gpu := 1 + 0.01*float64(n-1) + 1e-4*float64(n*512)
		fmt.Fprintf(&b, `{"kind":"decode","model":"small","batch":%d,"context":512,"step_ms":%g,"gpu_ms":%g,"graph":true,"beside":[{"model":"large","batch":4,"context":512,"asked_duty":1,"steps_per_s":180,"gpu_ms":5.3}]}`+"\n", n, gpu+0.1, gpu)
	}
	b.WriteString(`{"kind":"end","seconds":9,"complete":true}` + "\n")
	return b.String()
}

func TestProfileGPU(t *testing.T) {
	table := write(t, "table.jsonl", gpuTable())
	out := filepath.Join(t.TempDir(), "made")
	stdout := succeed(t, "profile", "gpu", table, "--out", out, "--resamples", "0", "--name", "two")
	for _, want := range []string{"made up", "the law that fits best is none", "| 4 with 512 each |", "scenario.yaml"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	s, err := scenario.Load(filepath.Join(out, "scenario.yaml"))
	if err != nil || s.Name != "two" {
		t.Fatalf("%+v, %v", s, err)
	}
	// Its profiles are as those of profile measure.
	adapted := succeed(t, "scenario", "profiles", filepath.Join(out, "scenario.yaml"), "--from", filepath.Join(out, "profile-large.yaml"))
	if !strings.Contains(adapted, "weight_bytes: 5000000000") {
		t.Error(adapted)
	}
	summary, err := os.ReadFile(filepath.Join(out, "summary.md"))
	if err != nil || !strings.HasPrefix(stdout, string(summary)) {
		t.Errorf("the summary is not what is printed: %v", err)
	}
}

func TestProfileGPURefuses(t *testing.T) {
	table := write(t, "table.jsonl", strings.Replace(gpuTable(), `"batch":4`, `"batch":-4`, 1))
	fail(t, []string{"profile", "gpu", table}, "table.jsonl:6:", "batch")
	fail(t, []string{"profile", "gpu", table + ".none"}, "cannot read the table", "no such file")
	fail(t, []string{"profile", "gpu", table, "--resamples", "-1"}, "--resamples -1 is negative")
	fail(t, []string{"profile", "gpu"}, "expected 1 argument")
}

// torchPython is a Python with PyTorch, or "".
func torchPython() string {
	for _, python := range []string{os.Getenv("PYTHON"), "python3", "/usr/bin/python3"} {
		if python != "" && exec.Command(python, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)").Run() == nil {
			return python
		}
	}
	return ""
}

// The script itself, on the processor: what it writes is a table that can be read and fitted.
// It takes some ten seconds on an idle machine, most of it Python reading PyTorch four times.
func TestMeasuringOnTheProcessor(t *testing.T) {
	if os.Getenv("GEARSHIFT_TEST_GPU") == "" {
		t.Skip("starts four Pythons with PyTorch: GEARSHIFT_TEST_GPU=1, or make gpu-test, runs it")
	}
	python := torchPython()
	if python == "" {
		t.Skip("no Python with PyTorch (Debian: apt-get install python3-torch): PYTHON names one")
	}
	path := filepath.Join(t.TempDir(), "table.jsonl")
	c := exec.Command(python, "../../scripts/gpu/measure.py", "--device", "cpu", "--budget", "300", "--out", path)
	if words, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, words)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	table, err := profiling.ReadGPUTable(file, path)
	if err != nil {
		t.Fatal(err)
	}
	if len(table.Models) != 3 || !table.Complete {
		t.Errorf("%d models, complete %v, notes %q", len(table.Models), table.Complete, table.Notes)
	}
	kinds := map[string]int{}
	for _, s := range table.Steps {
		kinds[fmt.Sprintf("prefill %v, %d neighbours", s.Prefill, len(s.Beside))]++
	}
	for _, m := range table.Moves {
		kinds[m.Kind+m.From+m.Cache]++
	}
	for _, want := range []string{
		"prefill false, 0 neighbours", "prefill true, 0 neighbours", "prefill false, 1 neighbours", "prefill true, 1 neighbours", "prefill false, 2 neighbours",
		"loadpageable", "loaddiskwarm", "sleep", "wake", "write",
	} {
		if kinds[want] == 0 {
			t.Errorf("no %s; there are %v", want, kinds)
		}
	}
	succeed(t, "profile", "gpu", path, "--out", t.TempDir(), "--resamples", "0")
}
