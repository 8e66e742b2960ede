package main

import (
	"testing"
	"time"

	"gearshift/internal/scenario"
)

// One of four hosts takes five times as long as its profiles say, and answers, so that
// nothing ejects it. At a light load it is seldom full, and by its profiles as good as
// the others: what tells is the pace of its streams, which forecasts then go by.
func TestASlowHostIsSpared(t *testing.T) {
	off, on := correctedOrNot(t, flood{length: 2 * time.Minute, slow: 5, hosts: 1})
	if on < 0.85 || on < off+0.2 {
		t.Errorf("%.3f in time where forecasts go by it, %.3f where they do not", on, off)
	}
}

// All hosts take an eighth longer than their profiles say, so that the largest size is
// late even where it is alone.
func TestProfilesThatPromiseTooMuchAreCorrected(t *testing.T) {
	off, on := correctedOrNot(t, flood{length: 3 * time.Minute, slow: 1.125, hosts: 4})
	if on < 0.85 || on < off+0.2 {
		t.Errorf("%.3f in time where forecasts go by it, %.3f where they do not", on, off)
	}
}

// correctedOrNot are the shares of a light load in time, on hosts that are slow, where
// forecasts do not go by it and where they do.
func correctedOrNot(t *testing.T, x flood) (off, on float64) {
	t.Helper()
	var met [2]float64
	for i, correct := range []bool{false, true} {
		s, err := scenario.Load("titan-rtx-opt")
		if err != nil {
			t.Fatal(err)
		}
		s.Serving.Server.Drift.Correct = correct
		x.scenario, x.policy, x.store, x.rate = s, s.Evaluation.Rules[0], "none.db", 1.5
		f := x.run(t)
		met[i] = float64(f.met) / float64(x.requests())
		t.Logf("corrected %v: %.3f in time, utility %.2f a second, %v, refused %v", correct, met[i], f.utility/x.length.Seconds(), f.variants, f.sheds)
	}
	return met[0], met[1]
}
