package rollout_test

import (
	"errors"
	"strings"
	"testing"

	"gearshift/router/rollout"
)

// What no version can be is refused where it comes in: in an order, which then holds up no other roll, in
// a model, and in a state.
func TestVersionsAreNames(t *testing.T) {
	w := newSimulation(t, 1, 2, 100, 40, quick())
	for _, version := range []string{"../../etc", "a/b", ".hidden", "-1", "1 2", "1\n", "ü", "a\x00", strings.Repeat("1", 65)} {
		if err := w.control.Roll(0, version, 0); !errors.Is(err, rollout.ErrVersion) || strings.Contains(err.Error(), "\n") {
			t.Errorf("a roll to %q: %v", version, err)
		}
		state := w.control.State(0)
		state.Models[0].History = []string{version}
		if err := w.control.Resume(state, 0); !errors.Is(err, rollout.ErrVersion) {
			t.Errorf("a state with %q: %v", version, err)
		}
		if _, err := rollout.New([]rollout.Versioned{
			{Name: "m", Version: version, Locations: []rollout.Location{{Replicas: [2]int{0, 1}}}},
		}, quick(), w); !errors.Is(err, rollout.ErrVersion) {
			t.Errorf("a model with %q: %v", version, err)
		}
	}
	for _, version := range []string{"2", "1.2.0-rc1+cu12", "2026-11-28", strings.Repeat("1", 64)} {
		if err := rollout.CheckVersion(version); err != nil {
			t.Error(err)
		}
	}
	w.roll(0, "2")
}
