package archtest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite deps.txt")

const command = "./cmd/gearshift"

// TestServeOnlyLinksNoTraining: what serves in production carries no learner,
// and draws no figures.
func TestServeOnlyLinksNoTraining(t *testing.T) {
	for _, p := range linked(t, "{{.ImportPath}}", "serveonly") {
		if within(p, "gorgonia.org", "gonum.org/v1/plot", module+"/rl/dqn", module+"/rl/fused", module+"/rl/supervised", module+"/workloads/digits", module+"/workloads/subjects") {
			t.Errorf("the serveonly binary links %s; keep it behind the build tag !serveonly", p)
		}
	}
}

// TestServeOnlyBuildsWithoutC: a static binary for a container from scratch.
func TestServeOnlyBuildsWithoutC(t *testing.T) {
	out := filepath.Join(t.TempDir(), "gearshift")
	goTool(t, []string{"CGO_ENABLED=0"}, "build", "-tags", "serveonly", "-o", out, command)
}

// TestDependencies holds the modules that the binary links against the
// checked-in list, so that a new one shows in review.
func TestDependencies(t *testing.T) {
	const file = "deps.txt"
	got := dependencies(t)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	lines := strings.Split(string(want), "\n")
	now := strings.Split(got, "\n")
	for _, line := range now {
		if !slices.Contains(lines, line) {
			t.Errorf("linked now: %s", line)
		}
	}
	for _, line := range lines {
		if !slices.Contains(now, line) {
			t.Errorf("no longer: %s", line)
		}
	}
	t.Errorf("the binary's modules differ from %s; if that is meant: go test ./internal/archtest -update", file)
}

// dependencies lists the modules of the plain Linux build, one a line, with a
// mark on those that the serveonly build leaves out.
func dependencies(t *testing.T) string {
	const format = "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}"
	serving := linked(t, format, "serveonly")
	var text strings.Builder
	text.WriteString("# The modules that a plain build of gearshift links, on Linux.\n")
	text.WriteString("# Rewritten by: go test ./internal/archtest -update\n")
	for _, m := range linked(t, format, "") {
		mark := ""
		if !slices.Contains(serving, m) {
			mark = "  (not in serveonly)"
		}
		fmt.Fprintf(&text, "%s%s\n", m, mark)
	}
	return text.String()
}

// linked prints a line for each package that the command links under the build
// tags, sorted, each once. The target is fixed, so that the answer does not
// depend on the machine.
func linked(t *testing.T, format, tags string) []string {
	t.Helper()
	target := []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64"}
	lines := strings.Fields(goTool(t, target, "list", "-deps", "-tags", tags, "-f", format, command))
	slices.Sort(lines)
	return slices.Compact(lines)
}

// goTool runs the go command at the module's root, with more environment.
func goTool(t *testing.T, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), env...)
	var faults strings.Builder
	cmd.Stderr = &faults
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, faults.String())
	}
	return string(out)
}
