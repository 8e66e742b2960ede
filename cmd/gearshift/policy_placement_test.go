//go:build !serveonly

package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/internal/training/policies"
	"gearshift/router/placement/layouts"
)

// storeGears stores a policy of placement whose gain over the rules begins at lo, and returns the store.
func storeGears(t *testing.T, lo float64) *checkpoints.Store {
	t.Helper()
	c := &checkpoints.Checkpoint{Network: randomNetwork(t, layouts.LearnedInputs, layouts.LearnedOutputs)}
	c.Meta.Placement = &checkpoints.Placement{Version: layouts.LearnedVersion, Inputs: layouts.LearnedInputs, Outputs: layouts.LearnedOutputs}
	c.Meta.SpecHash = c.Meta.Spec.Hash()
	gains := []policies.PlacementGain{
		{Over: "layouts that stay", By: evaluation.Interval{Mean: 0.05, Lo: 0.04, Hi: 0.06}},
		{Over: "bands", By: evaluation.Interval{Mean: 0.01, Lo: lo, Hi: 0.02}},
	}
	var err error
	if c.Meta.Evaluation, err = json.Marshal(gains); err != nil {
		t.Fatal(err)
	}
	store := &checkpoints.Store{Path: storePath(t)}
	if _, _, err := store.Put("gears", c, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	return store
}

// Promote checks a policy of placement and leaves production as it is, with and without --force.
func TestPromoteChecksPoliciesOfPlacement(t *testing.T) {
	for _, test := range []struct {
		lo      float64
		refusal string
		verdict string
	}{
		{0.005, "", "+0.0100 (+0.0050 to +0.0200): better (placement)"},
		{-0.001, "over bands, which is not more than chance", "+0.0100 (-0.0010 to +0.0200): level (placement)"},
	} {
		store := storeGears(t, test.lo)
		at := func(args ...string) []string {
			return append(append([]string{"policy"}, args...), "--store", store.Path)
		}
		if test.refusal != "" {
			fail(t, at("promote", "gears"), test.refusal)
		} else if out := succeed(t, at("promote", "gears")...); out != "gears@1 passes; name it in the scenario: serving.placement.policy: gears@1\n" {
			t.Errorf("promote: %s", out)
		}
		fail(t, at("promote", "gears", "--force", "--reason", "a test"), "routes no requests")
		if ref, err := store.Production(); !errors.Is(err, checkpoints.ErrNotFound) {
			t.Errorf("in production: %v, %v", ref, err)
		}
		if out := succeed(t, at("ls")...); !strings.Contains(out, test.verdict) {
			t.Errorf("ls: %s; want %s", out, test.verdict)
		}
	}
}

// Policies of placement are not exported, nor imported from the file of an earlier version.
func TestPoliciesOfPlacementAreNotExported(t *testing.T) {
	store, file := storeGears(t, 0.005), filepath.Join(t.TempDir(), "gears.onnx")
	fail(t, []string{"policy", "export", "gears", "--onnx", file, "--store", store.Path}, "policies of placement are not exported as ONNX")
	if _, err := os.Stat(file); err == nil {
		t.Error("a file is written all the same")
	}
	c, _, err := store.Get(checkpoints.Ref{Name: "gears", Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	data, err := checkpoints.EncodeONNX(c)
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	fail(t, []string{"policy", "import", file, "--name", "again", "--scenario", "tiny", "--store", store.Path}, "policies of placement are not exported as ONNX")
}
