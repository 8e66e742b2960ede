package calibrate

import (
	"testing"

	"gearshift/internal/scenario"
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
