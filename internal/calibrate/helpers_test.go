package calibrate

import (
	"path/filepath"
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/internal/scenario"
	"gearshift/router/nn"
)

// load loads a scenario for a test.
func load(t *testing.T, ref string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Load(ref)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// storeOf makes a store with an untrained policy of the scenario tiny.
func storeOf(t *testing.T, name string) string {
	t.Helper()
	s := load(t, "tiny")
	spec := s.Spec()
	network, err := nn.New(spec.Dim(), 4, len(spec.Variants))
	if err != nil {
		t.Fatal(err)
	}
	store := &checkpoints.Store{Path: filepath.Join(t.TempDir(), "policies.db")}
	c := &checkpoints.Checkpoint{Network: network, Meta: checkpoints.Meta{
		Scenario: s.Name, ScenarioHash: s.Hash(), Spec: spec, SpecHash: spec.Hash(), Preset: "quick", Config: []byte("{}"), Evaluation: []byte("{}"),
	}}
	if _, _, err := store.Put(name, c, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	return store.Path
}
