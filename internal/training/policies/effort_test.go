package policies

import (
	"slices"
	"testing"

	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
)

// A short sweep has some of the scenario's rates, in order, and no more requests than asked for; every
// family gets as many decisions.
func TestShortenedSweep(t *testing.T) {
	s, err := scenario.Load("titan-rtx-opt")
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int][]float64{1: {12}, 3: {1.5, 12, 36}, 19: s.Evaluation.StableRates, 30: s.Evaluation.StableRates} {
		if got := spread(s.Evaluation.StableRates, n); !slices.Equal(got, want) {
			t.Errorf("%d rates: %v, want %v", n, got, want)
		}
	}
	work, err := Shortened(s, []string{"u1", "stable"}, 100, 3, 500)
	if err != nil || len(work) != 4 {
		t.Fatalf("%v, %v", work, err)
	}
	requests := 0
	for _, w := range work[1:] {
		stream, err := w.Open(1)
		if err != nil {
			t.Fatal(err)
		}
		for {
			if _, ok := stream.Next(); !ok {
				break
			}
			requests++
		}
	}
	if requests < 400 || requests > 600 {
		t.Errorf("the sweep has %d requests, want about 500", requests)
	}
	if s.Evaluation.PhaseS != 40 || len(s.Evaluation.StableRates) != 19 {
		t.Error("the scenario has changed")
	}
}

// A short search plays the rules that are known before others of their form.
func TestShortSearchBeginsWithKnownRules(t *testing.T) {
	s, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	found, err := Effort{Trials: 4, Seeds: 1, Requests: 50, Rates: 1}.Search(t.Context(), s, []string{"u1"}, evaluation.Pacing{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	first := map[string]string{}
	for _, x := range found.Trials {
		if first[x.Family] == "" {
			first[x.Family] = x.Policy
		}
	}
	for family, want := range map[string]string{
		"slackfit:f": "slackfit:0.93", "slackfit:f,k": "slackfit:0.93,0.925", "priced:l,s,o,u,b": "priced:1,0.05,0.5,0.4,1", "threshold": "threshold:8",
	} {
		if first[family] != want {
			t.Errorf("%s begins with %s, want %s", family, first[family], want)
		}
	}
}
