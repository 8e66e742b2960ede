package policies

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/router/modality"
	"gearshift/router/nn"
)

// TestPoliciesOfJobs: one comes out of the store as it went in, by each form of its name; other
// references and other policies are errors that say why.
func TestPoliciesOfJobs(t *testing.T) {
	network, err := nn.New(modality.Observed, modality.Actions)
	if err != nil {
		t.Fatal(err)
	}
	s := &Source{Store: &checkpoints.Store{Path: filepath.Join(t.TempDir(), "s.db")}}
	c := &checkpoints.Checkpoint{Network: network}
	c.Meta.Jobs = &checkpoints.Jobs{Version: modality.ObservationVersion, Inputs: modality.Observed, Actions: modality.Actions, Foresight: json.RawMessage(`[{"caution":3}]`)}
	c.Meta.SpecHash = c.Meta.Spec.Hash()
	if _, _, err := s.Store.Put("inputs", c, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"inputs@1", "inputs@newest", "store:inputs", "store:inputs@1"} {
		n, entry, err := s.Jobs(ref)
		if err != nil || !slices.Equal(n.Cautions, modality.Always(3)) || n.Weights.Parameters() != network.Parameters() || entry.Ref().String() != "inputs@1" {
			t.Errorf("%s: %+v, %v, %v", ref, n, entry.Ref(), err)
		}
		if err := Routes(entry); err == nil || !strings.Contains(err.Error(), "routes no requests") {
			t.Errorf("%s would be in production: %v", ref, err)
		}
	}
	for ref, want := range map[string]string{
		"inputs@2":     "has no version 2",
		"store:other":  "other",
		"store:Inputs": "policy name",
	} {
		if _, _, err := s.Jobs(ref); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %s", ref, err, want)
		}
	}
	jobs := func(foresight string) *checkpoints.Jobs {
		return &checkpoints.Jobs{Version: modality.ObservationVersion, Foresight: json.RawMessage(foresight)}
	}
	narrow, err := nn.New(modality.Observed-1, modality.Actions)
	if err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]*checkpoints.Checkpoint{
		"it routes requests":                        {Network: network},
		"it observes version 0":                     {Network: network, Meta: checkpoints.Meta{Jobs: &checkpoints.Jobs{Foresight: json.RawMessage("3")}}},
		"the network maps":                          {Network: narrow, Meta: checkpoints.Meta{Jobs: jobs(`[]`)}},
		"the range of 1 inputs":                     {Network: network, Meta: checkpoints.Meta{Seen: []float32{1}, Jobs: jobs(`[]`)}},
		"the cautions of its plan cannot be read":   {Network: network, Meta: checkpoints.Meta{Jobs: jobs(`3`)}},
		"cautions[0]: branches 1 and 2; want nodes": {Network: network, Meta: checkpoints.Meta{Jobs: jobs(`[{"low":1,"high":2}]`)}},
	} {
		if _, err := JobsNetwork(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

// TestForesightIsShown: one caution, one that cases choose, and what cannot be read.
func TestForesightIsShown(t *testing.T) {
	for foresight, want := range map[string]string{
		`[{"caution":3}]`: "foresight of caution 3", `[]`: "foresight of caution none", `3`: "foresight that this gearshift cannot read",
		`[{"condition":5,"bound":0.1,"low":1,"high":2,"caution":0},{"caution":-1},{"caution":5}]`: "foresight of a caution up to 5, which 2 cases of load and batch times choose",
	} {
		if got := Foresight(&checkpoints.Jobs{Foresight: json.RawMessage(foresight)}); got != want {
			t.Errorf("%s: %q, want %q", foresight, got, want)
		}
	}
}
