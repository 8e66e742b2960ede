package policies

import (
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/router/nn"
	"gearshift/router/placement/layouts"
)

// placing stores a policy of placement that observes a version and gained so much, and returns its source.
func placing(t *testing.T, version int, gains ...PlacementGain) *Source {
	t.Helper()
	m, err := nn.New(layouts.LearnedInputs, layouts.LearnedOutputs)
	if err != nil {
		t.Fatal(err)
	}
	m.Randomise(rand.New(rand.NewPCG(1, 1)))
	c := &checkpoints.Checkpoint{Network: m}
	c.Meta.Placement = &checkpoints.Placement{Version: version, Inputs: layouts.LearnedInputs, Outputs: layouts.LearnedOutputs}
	c.Meta.SpecHash = c.Meta.Spec.Hash()
	if c.Meta.Evaluation, err = json.Marshal(gains); err != nil {
		t.Fatal(err)
	}
	s := &Source{Store: &checkpoints.Store{Path: filepath.Join(t.TempDir(), "store.db")}}
	if _, _, err := s.Store.Put("gears", c, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPlacementPoliciesAreOfThisVersion(t *testing.T) {
	if _, _, err := placing(t, layouts.LearnedVersion).Placement("gears@1"); err != nil {
		t.Error(err)
	}
	_, _, err := placing(t, layouts.LearnedVersion+1).Placement("gears@1")
	if err == nil || !strings.Contains(err.Error(), "train it again") {
		t.Errorf("a policy of another version: %v", err)
	}
}

// A policy of placement goes into production if it gains over all that it was compared with.
func TestPlacementIsAdmittedForItsGains(t *testing.T) {
	surely, perhaps := evaluation.Interval{Mean: 0.01, Lo: 0.005, Hi: 0.02}, evaluation.Interval{Mean: 0.01, Lo: -0.001, Hi: 0.02}
	for _, test := range []struct {
		gains []PlacementGain
		want  string // in the error
	}{
		{nil, "no stored comparison"},
		{[]PlacementGain{{"layouts that stay", surely}, {"worth", perhaps}}, "over worth"},
		{[]PlacementGain{{"layouts that stay", surely}, {"worth", surely}}, ""},
	} {
		s := placing(t, layouts.LearnedVersion, test.gains...)
		_, entry, err := s.Store.Get(checkpoints.Ref{Name: "gears", Version: 1})
		if err != nil {
			t.Fatal(err)
		}
		err = Admit(entry, nil, nil)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("admitted with %v, want %q", err, test.want)
		}
	}
}

// A scenario without serving.placement has nothing for a policy to decide.
func TestPlacingNeedsASection(t *testing.T) {
	s, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	if err := Placing(s, nil, "worth"); err == nil || !strings.Contains(err.Error(), "serving.placement") {
		t.Errorf("a rule for layouts that do not exist: %v", err)
	}
	if err := Placing(s, nil, ""); err != nil {
		t.Error(err)
	}
}
