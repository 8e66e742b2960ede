package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"gearshift/env/evaluation"
)

// As served the results say what was refused, and count it; otherwise nothing is.
func TestEvalAsServed(t *testing.T) {
	args := []string{"eval", "--scenario", "tiny", "--store", "none.db", "--policy", "slackfit", "--workload", "poisson:400", "--seeds", "2", "--requests", "1000", "--format", "json"}
	if out := succeed(t, args...); strings.Contains(out, "as_served") {
		t.Errorf("an evaluation without waiting tells of it:\n%s", out)
	}
	var report struct{ Results []evaluation.Result }
	if err := json.Unmarshal([]byte(succeed(t, append(args, "--as-served")...)), &report); err != nil {
		t.Fatal(err)
	}
	r := report.Results[0]
	if r.Served == nil || r.Requests != 2000 {
		t.Fatalf("%d requests, as served %+v", r.Requests, r.Served)
	}
	var answered float64
	for _, share := range r.Share {
		answered += share
	}
	refused := r.Served.RefusedShare()
	if refused < 0.1 || math.Abs(answered+refused-1) > 1e-9 || r.Served.Waited == 0 || r.Served.Wait.P99 == 0 || r.DeadlineMet.Mean > answered {
		t.Errorf("%.3f answered, %.3f in time, as served %+v", answered, r.DeadlineMet.Mean, r.Served)
	}
	table := succeed(t, append(args[:len(args)-2:len(args)-2], "--as-served", "--wide")...)
	if !strings.Contains(table, "AS SERVED") || !strings.Contains(table, "refused (deadline)") {
		t.Errorf("the table:\n%s", table)
	}
	csv := succeed(t, append(args[:len(args)-1:len(args)-1], "csv", "--as-served")...)
	if header, row, _ := strings.Cut(csv, "\n"); !strings.HasSuffix(header, "wait_ms_p99") || strings.Count(header, ",") != strings.Count(strings.TrimSpace(row), ",") {
		t.Errorf("the CSV:\n%s", csv)
	}
	fail(t, append(args, "--as-served", "--routers", "2"), "--as-served with --routers 2", "want 1")
	fail(t, append(args, "--as-served", "--policy", "clairvoyant:slackfit@5s"), "--as-served", "clairvoyant:slackfit@5s")
}

// The key of the scenario does what the flag does.
func TestScenarioAsServed(t *testing.T) {
	text := succeed(t, "scenario", "show", "tiny")
	path := write(t, "served.yaml", strings.Replace(text, "training:\n", "training:\n  as_served: true\n", 1))
	out := succeed(t, "eval", "--scenario", path, "--store", "none.db", "--policy", "slackfit", "--workload", "poisson:400", "--seeds", "1", "--requests", "500", "--format", "json")
	if !strings.Contains(out, `"as_served"`) {
		t.Errorf("training.as_served does nothing:\n%s", out)
	}
}
