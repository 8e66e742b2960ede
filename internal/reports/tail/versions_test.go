package tail

import (
	"strings"
	"testing"
	"time"

	"gearshift/env/evaluation/report"
	"gearshift/workloads"
)

// A version that is ordered at the peak waits for the night within the budget, and costs timeouts at
// once; no request fails either way, and each host changes.
func TestVersions(t *testing.T) {
	s := &study{
		day:   day{hosts: 8, peak: 0.95, night: 0.4, order: 6 * time.Second, falls: 40 * time.Second, low: 41 * time.Second, length: 90 * time.Second},
		seeds: workloads.Seeds(workloads.Training, 1),
	}
	list := changes()
	var runs []changed
	for _, x := range list {
		r, err := s.change(x, s.seeds[0])
		if err != nil {
			t.Fatal(err)
		}
		if x.options != nil && (!r.ended || r.Loads == 0 || r.Loads != r.Unloads) || r.Failed > 0 || r.Refused > 0 {
			t.Errorf("%s: ended %v after %v, %d loads, %d unloads, %d refused, %d requests failed", x.name, r.ended, r.stale, r.Loads, r.Unloads, r.Refused, r.Failed)
		}
		runs = append(runs, r)
	}
	if none, budget, all := runs[0].TimeoutShare(), runs[1].TimeoutShare(), runs[2].TimeoutShare(); budget-none > 0.0002 || all < 10*max(none, budget, 0.0001) {
		t.Errorf("timeouts %v without a change, %v within the budget and %v at once", none, budget, all)
	}
	if runs[1].stale < s.day.falls-s.day.order || runs[2].stale > runs[1].stale {
		t.Errorf("stale for %v within the budget, %v at once", runs[1].stale, runs[2].stale)
	}
	table, err := changeTable(list, [][]changed{runs[:1], runs[1:2], runs[2:]})
	if err != nil {
		t.Fatal(err)
	}
	r := report.Report{Title: "x", Scenario: "x", Repeat: "x", Verdict: []string{"x", "y", "z"}, Sections: []report.Section{{ID: "versions", Title: "x",
		Tables: []report.Table{table, s.tradeTable([]float64{0.7}, [][]changed{runs[1:2]}, runs[:1])}, Figures: []report.Figure{changeFigure(list, [][]changed{runs[:1], runs[1:2], runs[2:]})}}}}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	runs[1].ended = false
	if _, err := changeTable(list, [][]changed{runs[:1], runs[1:2], runs[2:]}); err == nil || !strings.Contains(err.Error(), "0 of 1 changes ended") {
		t.Errorf("error %v of a day that is too short", err)
	}
}
