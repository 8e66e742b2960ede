package prompts

import (
	"context"
	"math"
	"strings"
	"testing"

	"gearshift/env/evaluation"
	"gearshift/internal/reports"
	"gearshift/router/fleet"
	"gearshift/workloads"
)

// Each arm has its rows, and knowing more of prompts earns more under the same rule: the oracle most,
// and predictions that are dealt to other prompts less than theirs.
func TestUnderLoad(t *testing.T) {
	s := short(20)
	s.requests, s.steady = 600, nil
	p := s.make(t, "load")
	rows := p.Tables[0].Rows
	if len(rows) != 2*10 {
		t.Errorf("%d rows, want 10 contestants on two workloads", len(rows))
	}
	w, err := newBench()
	if err != nil {
		t.Fatal(err)
	}
	arms, err := w.arms()
	if err != nil {
		t.Fatal(err)
	}
	var list []evaluation.Contestant
	for _, a := range arms[:4] {
		c, err := a.contestant(rule)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	work, err := w.scenario.Evaluated([]string{"u1"}, 3000)
	if err != nil {
		t.Fatal(err)
	}
	results, err := s.play(t.Context(), list, work)
	if err != nil {
		t.Fatal(err)
	}
	if mean, predicted, oracle, dealt := results[0], results[1], results[2], results[3]; !(oracle.Utility.Mean > predicted.Utility.Mean+0.05 && predicted.Utility.Mean > mean.Utility.Mean+0.01 && predicted.Utility.Mean > dealt.Utility.Mean+0.02) {
		t.Errorf("mean %v, predicted %v, oracle %v, dealt %v", mean.Utility, predicted.Utility, oracle.Utility, dealt.Utility)
	}
}

// Requests of one group are played, by a predictor without its labels.
func TestStrangeGroups(t *testing.T) {
	w, err := newBench()
	if err != nil {
		t.Fatal(err)
	}
	group := w.groups()[0]
	list, some, err := w.elsewhere(group)
	if err != nil {
		t.Fatal(err)
	}
	carried := some.Workload.Carried[0]
	if len(carried) == 0 || len(carried) >= len(w.used) {
		t.Fatalf("%d of %d prompts are played", len(carried), len(w.used))
	}
	for _, i := range carried {
		if g := w.Prompts[w.used[i]].Group; g != group {
			t.Fatalf("a prompt of group %s is played", g)
		}
	}
	var sure [2]float64 // of the group: without its labels, and with them
	for k, c := range []evaluation.Contestant{list[1], list[4]} {
		for _, i := range carried {
			sure[k] += float64(c.Fleet.Prompts.Predicted[0][i].Sure) / float64(len(carried))
		}
	}
	if sure[0] >= sure[1] {
		t.Errorf("%.2f sure without labels of the group, and %.2f with them", sure[0], sure[1])
	}
	if len(w.scenario.Workload.Carried[0]) != len(w.used) {
		t.Error("the scenario itself has other prompts now")
	}
}

// Scores are predictions between 0 and 1, with the gain that one of twenty prompts exceeds.
func TestScoresAsPredictions(t *testing.T) {
	var rows [][]float64
	for i := range 100 {
		rows = append(rows, []float64{0.5, 0.5 + float64(i)/100, -1})
	}
	list := predictions(rows)
	if q := list[99].Quality; q[0] != 0.5 || q[1] != 1 || q[2] != 0 || list[99].Low != q || !list[99].Known {
		t.Errorf("%+v", list[99])
	}
	if g := list[0].Gains; math.Abs(float64(g[1])-0.94) > 1e-6 || g[2] != 0 {
		t.Errorf("gains %v", g)
	}
}

// A threshold is by the gain alone, and the one that is tuned is no worse on its seeds than never
// choosing the large size.
func TestThreshold(t *testing.T) {
	w, err := newBench()
	if err != nil {
		t.Fatal(err)
	}
	c, err := (arm{"oracle", w.by("oracle"), nil}).contestant(rule)
	if err != nil {
		t.Fatal(err)
	}
	d := threshold{0, 2, 0.2}
	r := fleet.Request{Predicted: fleet.Prediction{Known: true}}
	for gain, want := range map[float32]int{0.1: 0, 0.3: 2} {
		r.Predicted.Quality[2] = gain
		if got := d.Decide(&fleet.View{Table: c.Fleet.Table}, &r, nil); got != want {
			t.Errorf("a gain of %v gives variant %d, want %d", gain, got, want)
		}
	}
	work, err := w.scenario.Evaluated([]string{"u1"}, 300)
	if err != nil {
		t.Fatal(err)
	}
	tuned, err := tuneThreshold(context.Background(), c, work[0], 2)
	if err != nil {
		t.Fatal(err)
	}
	never := c
	never.Name, never.Decider = "never", threshold{0, 2, 2}
	plan := evaluation.Plan{Contestants: []evaluation.Contestant{tuned, never}, Workloads: work, Seeds: workloads.Seeds(workloads.Training, 2)}
	results, err := plan.Evaluate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d := reports.Less(results[0].Runs, results[1].Runs); d.Mean <= 0 || !strings.Contains(tuned.Name, "above") {
		t.Errorf("%s: %+v more than never", tuned.Name, d)
	}
}
