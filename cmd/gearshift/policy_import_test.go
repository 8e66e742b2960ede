//go:build !serveonly

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"gearshift/checkpoints"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
)

// A network trained elsewhere becomes a policy of the scenario's preset, of
// either kind, that the gate can judge.
func TestImportedPolicyIsJudged(t *testing.T) {
	for _, c := range []struct{ scenario, preset string }{{"tiny", "default"}, {placingTiny(t), "quick"}} {
		s, err := scenario.Load(c.scenario)
		if err != nil {
			t.Fatal(err)
		}
		preset, err := s.Preset(c.preset)
		if err != nil {
			t.Fatal(err)
		}
		spec := s.Trained(preset).Spec()
		path := write(t, "q_net.onnx", string(checkpoints.NetworkONNX(randomNetwork(t, spec.Inputs(), 16, spec.Outputs()))))
		store := storePath(t)
		succeed(t, "policy", "import", path, "--scenario", c.scenario, "--preset", c.preset, "--name", "foreign", "--store", store)
		got := show(t, store, "foreign")
		if m := got.Meta; m.Preset != "imported" || m.AdviceMargin != 0 || m.Seen != nil || m.ScenarioHash != s.Hash() || m.SpecHash != spec.Hash() {
			t.Errorf("%s: it is described as %+v", c.preset, m)
		}
		var evaluation policies.Evaluation
		if err := json.Unmarshal(got.Meta.Evaluation, &evaluation); err != nil || evaluation.HeldOut.Seeds != policies.HeldOutSeeds || len(evaluation.HeldOut.Policies) < 4 {
			t.Errorf("%s: evaluation %+v (%v)", c.preset, evaluation, err)
		}
		if code, _, stderr := gearshift(t, "policy", "promote", "foreign", "--store", store); code != 1 || !strings.Contains(stderr, "on 10 held-out seeds") {
			t.Errorf("%s: promote: exit code %d, %s", c.preset, code, stderr)
		}
		if spec.Places() {
			continue
		}
		if r := evaluate(t, "--scenario", c.scenario, "--store", store, "--policy", "foreign", "--seeds", "1", "--requests", "200"); len(r.Results) != 2 {
			t.Errorf("%s: it does not play: %+v", c.preset, r)
		}
	}
}
