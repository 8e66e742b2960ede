package evaluation_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gearshift/env/evaluation"
	"gearshift/router/fleet"
)

// judged evaluates the sizes on the plan's workloads with these deadlines.
func judged(t *testing.T, first, total time.Duration) []evaluation.Result {
	t.Helper()
	p := plan(t)
	tasks := []fleet.Task{p.Contestants[0].Fleet.Table.Tasks[0]}
	tasks[0].FirstToken, tasks[0].Total = first, total
	p.Judge = tasks
	results, err := p.Evaluate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// A deadline that is not per token has its share reported, and the answer earns nothing if
// it is missed; without one the report is as it was.
func TestSharesOfDeadlines(t *testing.T) {
	for _, r := range judged(t, 0, 0) {
		if text, err := json.Marshal(r); err != nil || r.Deadlines != nil || strings.Contains(string(text), "deadlines\"") {
			t.Errorf("%s, %v: shares without such a deadline", text, err)
		}
	}
	plain, generous, strict := judged(t, 0, 0), judged(t, time.Hour, 0), judged(t, time.Microsecond, time.Hour)
	for i, r := range generous {
		d := r.Deadlines
		if d == nil || d.Met["first_token"].Mean != 1 || len(d.Met) != 2 || r.Utility != plain[i].Utility || d.Met["per_token"] != plain[i].DeadlineMet {
			t.Errorf("%s on %s: %+v, want all first tokens in time and the rest as without", r.Policy, r.Workload, d)
			continue
		}
		if len(d.All) != 3 || len(d.Runs["per_token"]) != 3 || d.NextToken.P99 <= 0 || d.NextToken.P99 > r.TPOT.P99 {
			t.Errorf("%s on %s: %+v by seed; %v between tokens, %v in all", r.Policy, r.Workload, d, d.NextToken, r.TPOT)
		}
	}
	for i, r := range strict {
		d := r.Deadlines
		if d == nil || d.Met["first_token"].Mean != 0 || d.Met["total"].Mean != 1 || d.Met["per_token"] != plain[i].DeadlineMet || r.DeadlineMet.Mean != 0 || r.Utility.Mean != 0 {
			t.Errorf("%s on %s: %+v, utility %v", r.Policy, r.Workload, d, r.Utility)
		}
	}
}
