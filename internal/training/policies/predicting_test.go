package policies

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/internal/scenario"
	"gearshift/internal/scenario/labelled"
	"gearshift/router/quality"
	"gearshift/workloads/prompts"
)

// stored is a store with a predictor of the name, fitted to the prompts of prompts-three that are
// not played.
func stored(t *testing.T, s *scenario.Scenario, name string) *checkpoints.Store {
	t.Helper()
	set, err := prompts.BuiltIn(prompts.NineModels)
	if err != nil {
		t.Fatal(err)
	}
	fitted, _ := set.Of(s.Columns()).Halves()
	fitted.Prompts = fitted.Prompts[:200]
	m, _, err := quality.Fit(labelled.Examples(fitted, 7), fitted.Columns, quality.Options{Key: 7})
	if err != nil {
		t.Fatal(err)
	}
	store := &checkpoints.Store{Path: filepath.Join(t.TempDir(), "store.db")}
	if _, _, err := store.Predictors().Put(name, m.Encode(), checkpoints.Predictor{Columns: fitted.Columns}, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	return store
}

// A simulation predicts by what the scenario names, or by what is asked for in its place, and says
// by what.
func TestPredicting(t *testing.T) {
	s, err := scenario.Load("prompts-three")
	if err != nil {
		t.Fatal(err)
	}
	store := stored(t, s, "chat")
	for ref, says := range map[string]string{"": "a fit to ", "none": "", "fit": "a fit to ", "oracle": "an oracle ", "chat@1": "chat@1"} {
		one, err := scenario.Load("prompts-three")
		if err != nil {
			t.Fatal(err)
		}
		if err := Predicting(one, store, ref); err != nil {
			t.Fatalf("%q: %v", ref, err)
		}
		c, err := one.Simulation()
		if err != nil {
			t.Fatalf("%q: %v", ref, err)
		}
		if got := one.Predicting(); !strings.HasPrefix(got, says) || (got == "") != (says == "") || (c.Prompts.Predicted == nil) != (says == "") {
			t.Errorf("%q: predicted by %q, want %q", ref, got, says)
		}
	}
	tiny, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		s         *scenario.Scenario
		ref, want string
	}{
		{s, "chat@2", "--quality: "},
		{s, "a chat", `--quality: predictor "a chat": `},
		{tiny, "fit", "--quality fit: the requests of tiny carry no prompts; want workload.prompts in it"},
	} {
		if err := Predicting(c.s, store, c.ref); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %s", c.ref, err, c.want)
		}
	}
	if err := Predicting(tiny, store, NoPredictor); err != nil {
		t.Errorf("nothing to predict, and nothing asked for: %v", err)
	}
}
