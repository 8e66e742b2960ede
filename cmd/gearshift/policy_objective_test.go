package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/internal/calibrate/enginetest"
	"gearshift/internal/training/policies"
)

// storeOfObjectives is a store of two policies: mine@1, and near@1, which was trained for
// near-peak.
func storeOfObjectives(t *testing.T) string {
	t.Helper()
	path := enginetest.Store(t, "tiny", "mine")
	store := &checkpoints.Store{Path: path}
	c, _, err := store.Get(checkpoints.Ref{Name: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	c.Meta.Objective = "near-peak"
	if _, _, err := store.Put("near", c, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	return path
}

// show prints what a policy was trained for, and JSON leaves out utility.
func TestPolicyShowSaysTheObjective(t *testing.T) {
	path := storeOfObjectives(t)
	for ref, want := range map[string]string{"mine": "utility", "near": "near-peak"} {
		if out := succeed(t, "policy", "show", ref, "--store", path); !strings.Contains(out, "\n  objective "+want+"\n") {
			t.Errorf("show %s:\n%s", ref, out)
		}
		if out := succeed(t, "policy", "show", ref, "--store", path, "--format", "json"); strings.Contains(out, "objective") != (ref == "near") {
			t.Errorf("show %s as JSON:\n%s", ref, out)
		}
	}
}

// An ONNX file has the objective. A policy that is evaluated again is evaluated by it, and
// one of an unknown objective is not.
func TestPolicyExportKeepsTheObjective(t *testing.T) {
	path := storeOfObjectives(t)
	file := filepath.Join(t.TempDir(), "near.onnx")
	succeed(t, "policy", "export", "near", "--store", path, "--onnx", file)
	succeed(t, "policy", "import", file, "--scenario", "tiny", "--store", path, "--name", "back")
	m := show(t, path, "back").Meta
	var evaluated policies.Evaluation
	if err := json.Unmarshal(m.Evaluation, &evaluated); err != nil {
		t.Fatal(err)
	}
	if m.Objective != "near-peak" || evaluated.HeldOut.Objective != evaluation.NearPeak {
		t.Errorf("it came back for %q, evaluated by %s", m.Objective, evaluated.HeldOut.Objective)
	}
	scenario := edited(t, "tiny", "\ntraining:\n", "\ntraining:\n  objective: {power: 2}\n")
	foreign := write(t, "net.onnx", string(checkpoints.NetworkONNX(randomNetwork(t, scenarioOf(t, "tiny").Spec().Inputs(), 4, 2))))
	succeed(t, "policy", "import", foreign, "--scenario", scenario, "--store", path, "--name", "foreign")
	if m := show(t, path, "foreign").Meta; m.Objective != "power:2" {
		t.Errorf("a network from elsewhere is for %q", m.Objective)
	}
	c, _, err := (&checkpoints.Store{Path: path}).Get(checkpoints.Ref{Name: "near"})
	if err != nil {
		t.Fatal(err)
	}
	c.Meta.Objective = "calm:3"
	args := []string{"policy", "import", exported(t, c, ""), "--scenario", "tiny", "--store", path, "--name", "odd"}
	if code, _, stderr := gearshift(t, args...); code != 1 || !strings.Contains(stderr, `unknown objective "calm:3"`) {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// A router says what its policies were trained for, to operators and to their page.
func TestARouterSaysTheObjective(t *testing.T) {
	s := steerTiny(t, "--store", storeOfObjectives(t), "--policy", "near")
	admin := []string{"--admin", s.operators.url}
	out := succeed(t, append([]string{"policy", "shadow", "mine"}, admin...)...)
	if !strings.HasPrefix(out, "in charge: near@1 (for near-peak)\n") || !strings.Contains(out, "on trial:  mine@1, shadow") {
		t.Errorf("after an order:\n%s", out)
	}
	for _, from := range []string{"/admin/policy", "/admin/dashboard"} {
		if _, _, text := s.operators.ask(t, "GET", from, ""); strings.Count(text, `"objective":"near-peak"`) != 1 {
			t.Errorf("%s: %s", from, text)
		}
	}
	succeed(t, append([]string{"policy", "promote", "mine", "--force", "--reason", "a test"}, admin...)...)
	out = succeed(t, append([]string{"policy", "canary", "near", "--share", "0.5"}, admin...)...)
	if !strings.HasPrefix(out, "in charge: mine@1\n") || !strings.Contains(out, "on trial:  near@1 (for near-peak), canary of 50 %") {
		t.Errorf("turned round:\n%s", out)
	}
	s.end(t)
}
