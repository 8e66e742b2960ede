package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gearshift/cmd/gearshift/policies"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/env/evaluation"
	"gearshift/router/policy"
	"gearshift/workloads"
)

var quickTuning = []string{
	"eval", "--scenario", "tiny", "--workload", "u1", "--workload", "stable:4", "--requests", "200", "--seeds", "2",
	"--tune", "--tune-seeds", "1", "--tune-trials", "6",
}

// One object holds the search and the evaluation of the rules that it found,
// beside the policies asked for.
func TestEvalTunes(t *testing.T) {
	out := t.TempDir()
	text := succeed(t, append(quickTuning, "--policy", "static:small", "--policy", "slackfit", "--format", "json", "--out", out)...)
	var r evaluation.Report
	d := json.NewDecoder(strings.NewReader(text))
	if err := d.Decode(&r); err != nil || d.Decode(&struct{}{}) != io.EOF {
		t.Fatalf("not one JSON object: %v\n%s", err, text)
	}
	if r.Tuning == nil || r.Tuning.On != "training seeds" || r.Tuning.Seeds != 1 || len(r.Tuning.Best) < 7 || r.Tuning.Trials != nil {
		t.Fatalf("the search: %+v", r.Tuning)
	}
	evaluated := map[string]bool{}
	for _, x := range r.Results {
		evaluated[x.Policy] = true
	}
	trials := 0
	for _, b := range r.Tuning.Best {
		if !policy.IsRule(b.Policy) || !evaluated[b.Policy] || b.Trials < 1 || b.Trials > 6 {
			t.Errorf("best of %s in %d trials: %s, evaluated %t", b.Family, b.Trials, b.Policy, evaluated[b.Policy])
		}
		trials += b.Trials
	}
	if !evaluated["static:small"] || !evaluated["slackfit:0.93"] {
		t.Errorf("evaluated %v", evaluated)
	}
	var all evaluation.TuningReport
	data, err := os.ReadFile(filepath.Join(out, "tune.json"))
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil || len(all.Trials) != trials {
		t.Errorf("tune.json: %d trials of %d, %v", len(all.Trials), trials, err)
	}
	data, err = os.ReadFile(filepath.Join(out, "tune.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if rows, err := csv.NewReader(strings.NewReader(string(data))).ReadAll(); err != nil || len(rows) != 1+trials {
		t.Errorf("tune.csv: %d rows for %d trials, %v", len(rows), trials, err)
	}
}

func TestEvalPrintsTheSearch(t *testing.T) {
	text := succeed(t, append(quickTuning, "--policy", "static:small")...)
	if !strings.HasPrefix(text, "Tuned on 1 training seeds of u1, stable:4:\n") || !strings.Contains(text, "\n\nWORKLOAD") {
		t.Errorf("printed\n%s", text)
	}
}

// The score of a search is an evaluation's on seeds of the training domain.
func TestTuningPlaysTrainingSeeds(t *testing.T) {
	s, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	work, err := s.Evaluated([]string{"u1"}, 200)
	if err != nil {
		t.Fatal(err)
	}
	report, err := tune(context.Background(), s, tuneOptions{seeds: 3, trials: 3}, work, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range report.Best {
		c, err := policies.Contestant(s, nil, b.Policy, nil)
		if err != nil {
			t.Fatal(err)
		}
		plan := evaluation.Plan{Contestants: []evaluation.Contestant{c}, Workloads: work, Seeds: workloads.Seeds(workloads.Training, 3)}
		results, err := plan.Evaluate(context.Background())
		if err != nil || math.Abs(results[0].Utility.Mean-b.Score) > 1e-12 {
			t.Errorf("%s scores %v, evaluation says %+v, %v", b.Policy, b.Score, results, err)
		}
	}
}

func TestTuneFlagErrors(t *testing.T) {
	fail(t, []string{"eval", "--scenario", "tiny", "--tune", "--tune-seeds", "0"}, "--tune-seeds 0", "at least 1")
	fail(t, []string{"eval", "--scenario", "tiny", "--tune", "--tune-trials", "-1"}, "--tune-trials -1", "at least 1")
	fail(t, []string{"eval", "--scenario", "tiny", "--tune", "--tune-for", "speed"}, "--tune-for", "utility or windows")
}
