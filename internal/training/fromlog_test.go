package training

import (
	"testing"

	"gearshift/checkpoints"
	"gearshift/internal/scenario"
	"gearshift/router/nn"
	"gearshift/router/policy"
)

// A fine-tuned policy and the one that it began with are compared each as it is stored,
// with its own caution.
func TestFineTunedPoliciesAreComparedAsStored(t *testing.T) {
	s, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	s.Evaluation.Requests, s.Evaluation.StableRates = 200, []float64{2, 6}
	r, err := newRunOn(Options{Preset: "quick", Store: storePath(t), Seed: 1}, s)
	if err != nil {
		t.Fatal(err)
	}
	stack, err := nn.Stack(leading(t, r, 1), leading(t, r, 3)) // by 2, with a deviation of 1
	if err != nil {
		t.Fatal(err)
	}
	score := func(caution float64) float64 {
		v, err := r.judge.Score(t.Context(), stack, policy.Trust{Caution: caution})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	l := &logRun{run: r, start: &checkpoints.Checkpoint{Network: stack, Meta: checkpoints.Meta{Caution: 3}}}
	r.meta.Caution = 1
	got, err := l.compare(t.Context(), stack)
	if err != nil {
		t.Fatal(err)
	}
	if was, is := score(3), score(1); got.Before != was || got.After != is || was == is {
		t.Errorf("%v, was %v; want %v, was %v", got.After, got.Before, is, was)
	}
}
