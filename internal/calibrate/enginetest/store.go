package enginetest

import (
	"path/filepath"
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/internal/scenario"
	"gearshift/router/nn"
)

// Store makes a store with an untrained policy of a scenario, and returns its path.
func Store(t testing.TB, ref, name string) string {
	t.Helper()
	s, err := scenario.Load(ref)
	if err != nil {
		t.Fatal(err)
	}
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
