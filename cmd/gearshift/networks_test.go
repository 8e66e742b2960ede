//go:build !serveonly

package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/internal/calibrate/enginetest"
	"gearshift/internal/scenario"
)

// randomPolicies is a store with a policy of random weights of each preset named.
func randomPolicies(t *testing.T, ref string, presets ...string) string {
	t.Helper()
	s, err := scenario.Load(ref)
	if err != nil {
		t.Fatal(err)
	}
	store := &checkpoints.Store{Path: storePath(t)}
	for _, name := range presets {
		preset, err := s.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		spec := s.Trained(preset).Spec()
		c := &checkpoints.Checkpoint{Network: randomNetwork(t, spec.Inputs(), 32, 32, spec.Outputs()),
			Meta: checkpoints.Meta{Scenario: s.Name, ScenarioHash: s.Hash(), Spec: spec, SpecHash: spec.Hash()}}
		if _, _, err := store.Put(name, c, time.Unix(0, 0)); err != nil {
			t.Fatal(err)
		}
	}
	return store.Path
}

// A whole evaluation comes out the same by either engine, for policies of either
// kind: every choice is the same.
func TestEnginesChooseAlike(t *testing.T) {
	needONNX(t)
	path := placingTiny(t)
	store := randomPolicies(t, path, "default", "quick")
	play := func(engine string) any {
		r := evaluate(t, "--scenario", path, "--store", store, "--policy", "default", "--policy", "quick", "--seeds", "2", "--requests", "2000", "--engine", engine)
		for _, row := range r.Results {
			if row.Share["small"] < 0.02 || row.Share["small"] > 0.98 {
				t.Errorf("%s on %s chooses small for %v: nothing to tell engines by", row.Policy, row.Workload, row.Share["small"])
			}
		}
		return r.Results
	}
	if native, onnx := play("native"), play("onnx"); !reflect.DeepEqual(native, onnx) {
		t.Errorf("natively %+v\nby ONNX Runtime %+v", native, onnx)
	}
}

func TestServeByONNXRuntime(t *testing.T) {
	needONNX(t)
	s := serveTiny(t, "--store", randomPolicies(t, "tiny", "default"), "--policy", "default", "--engine", "onnx")
	status, header, text := s.ask(t, "POST", "/v1/chat/completions", `{"model":"auto","messages":[{"role":"user","content":"how do gears turn"}],"max_tokens":3}`)
	if status != http.StatusOK || header.Get("X-Gearshift-Policy") != "default@1" || header.Get("X-Gearshift-Fallback") != "" {
		t.Errorf("status %d, header %v, %s", status, header, text)
	}
	s.end(t)
}

// Without the library both commands say how to get it, before they do anything.
func TestEngineIsMissing(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	store := enginetest.Store(t, "tiny", "mine")
	for _, command := range []string{"eval", "serve"} {
		fail(t, []string{command, "--scenario", "tiny", "--engine", "fast"}, "--engine fast", "native or onnx")
		// In a process of its own: this one may have loaded the library.
		c := exec.CommandContext(t.Context(), self, command, "--scenario", "tiny", "--store", store, "--policy", "mine", "--engine", "onnx")
		c.Env = append(os.Environ(), "GEARSHIFT_TEST_MAIN=1", "GEARSHIFT_ONNXRUNTIME="+filepath.Join(t.TempDir(), "none.so"))
		out, err := c.CombinedOutput()
		if line := strings.TrimSuffix(string(out), "\n"); err == nil || strings.Contains(line, "\n") || !strings.Contains(line, "--engine onnx: ") || !strings.Contains(line, "make onnxruntime") {
			t.Errorf("%s: %v, %s", command, err, out)
		}
	}
}
