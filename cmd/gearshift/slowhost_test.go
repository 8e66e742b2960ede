package main

import (
	"testing"
	"time"

	"gearshift/cmd/gearshift/scenario"
)

// One of four hosts takes five times as long as its profiles say, and answers, so that
// nothing ejects it. At a light load it is seldom full, and by its profiles as good as
// the others: what tells is the pace of its streams, which forecasts then go by.
func TestASlowHostIsSpared(t *testing.T) {
	var met [2]float64
	for i, correct := range []bool{false, true} {
		s, err := scenario.Load("titan-rtx-opt")
		if err != nil {
			t.Fatal(err)
		}
		s.Serving.Server.Drift.Correct = correct
		x := flood{scenario: s, policy: taskAware, store: "none.db", rate: 1.5, length: 2 * time.Minute, slow: 5}
		f := x.run(t)
		met[i] = float64(f.met) / float64(x.requests())
		t.Logf("corrected %v: %.3f in time, utility %.2f a second, %v, refused %v", correct, met[i], f.utility/x.length.Seconds(), f.variants, f.sheds)
	}
	if met[1] < 0.85 || met[1] < met[0]+0.2 {
		t.Errorf("%.3f in time where forecasts go by it, %.3f where they do not", met[1], met[0])
	}
}
