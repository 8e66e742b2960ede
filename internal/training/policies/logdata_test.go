package policies

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/env/evaluation/logged"
	"gearshift/internal/scenario"
	"gearshift/serving/experience"
)

// Where a policy left nothing to chance, what it did not choose is not known of.
func TestWhatALogWithoutChanceSays(t *testing.T) {
	for propensity, alone := range map[float64]bool{0: true, 1: true, 0.9: false} {
		log := &logged.Log{Runs: []logged.Run{{Decisions: []logged.Decision{{Propensity: 1}, {Propensity: propensity}}}}}
		warned := slices.ContainsFunc(Assumptions(log, false), func(a string) bool { return strings.Contains(a, "nothing to chance") })
		if warned != alone {
			t.Errorf("propensity %v: %t, want %t", propensity, warned, alone)
		}
	}
}

// Policies decide on a log by the limits of the router that wrote it, as they were last.
func TestTheFleetOfALog(t *testing.T) {
	s, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	limits := func(limit int) experience.Run {
		h := experience.NewHeader(s.Table())
		for i := range h.Replicas {
			h.Replicas[i].Limit = limit
		}
		return experience.Run{Header: h}
	}
	table, err := LogTable(s, &experience.Log{Runs: []experience.Run{limits(5), limits(7)}})
	if err != nil || table.Replicas[0].Limit != 7 {
		t.Errorf("%+v, %v", table, err)
	}
}

// What the holder of a lease said of an answer is load, and evidence of nothing.
func TestToldRowsAreNoEvidence(t *testing.T) {
	row := experience.Row{Outcome: experience.Completed, OutputTokens: 9, Judged: true, Met: true, Utility: 2, PerToken: time.Millisecond}
	if d := decision(&row); !d.Judged || d.OutputTokens != 9 || d.Utility != 2 {
		t.Errorf("seen by the router: %+v", d)
	}
	row.Reported = true
	if d := decision(&row); d.Judged || d.Met || d.OutputTokens != 0 || d.Utility != 0 || d.PerToken != 0 {
		t.Errorf("told by a client: %+v", d)
	}
}
