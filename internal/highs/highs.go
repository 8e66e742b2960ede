// Package highs has tests ask HiGHS, an exact solver of integer programs, which is an npm
// package and runs in Node.js. Nothing but tests imports it.
package highs

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Program is an integer program in CPLEX LP format, with options of HiGHS.
type Program struct {
	Text    string         `json:"text"`
	Options map[string]any `json:"options,omitempty"`
}

// Solution is what HiGHS says of a program.
type Solution struct {
	Status    string  `json:"status"` // Optimal, Infeasible, …
	Objective float64 `json:"objective"`
	MS        float64 `json:"ms"`
}

// folder is where the scripts are. Tests run in the folder of their package, below the one with
// go.mod.
func folder(t *testing.T) string {
	t.Helper()
	root, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(root, "go.mod")); missing == nil {
			return filepath.Join(root, "internal", "highs")
		}
		if root == filepath.Dir(root) {
			break
		}
		root = filepath.Dir(root)
	}
	t.Fatalf("no folder above has go.mod: %v", err)
	return ""
}

// Need installs the npm package where it is not yet. Its version is locked in this folder.
func Need(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("this test needs Node.js with npm (Debian: apt-get install nodejs npm): %v", err)
		}
	}
	// npm writes this file last. The tests of another package may be installing it.
	installed, lock := filepath.Join(folder(t), "node_modules", ".package-lock.json"), filepath.Join(folder(t), ".installing")
	for t.Context().Err() == nil {
		if _, err := os.Stat(installed); err == nil {
			return
		}
		if err := os.Mkdir(lock, 0o755); os.IsExist(err) {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		defer os.Remove(lock)
		install := exec.CommandContext(t.Context(), "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
		install.Dir = folder(t)
		if out, err := install.CombinedOutput(); err != nil {
			t.Fatalf("cannot install the highs package: %v\n%s", err, out)
		}
	}
}

// Solve solves the programs.
func Solve(t *testing.T, programs []Program) (list []Solution) {
	t.Helper()
	Run(t, "programs.mjs", programs, &list)
	if len(list) != len(programs) {
		t.Fatalf("%d solutions of %d programs", len(list), len(programs))
	}
	return list
}

// Run runs a script of this folder on the JSON of in, and reads its answer into out.
func Run(t *testing.T, script string, in, out any) {
	t.Helper()
	Need(t)
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), "node", script)
	run.Dir, run.Stdin = folder(t), bytes.NewReader(text)
	var complaints bytes.Buffer
	run.Stderr = &complaints
	answer, err := run.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, complaints.String())
	}
	if err := json.Unmarshal(answer, out); err != nil {
		t.Fatalf("%s: %v in %s", script, err, answer)
	}
}
