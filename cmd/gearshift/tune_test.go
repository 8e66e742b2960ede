package main

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gearshift/env/evaluation"
	"gearshift/router/policy"
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

// The rules of several routers are tuned for as many.
func TestEvalTunesForItsRouters(t *testing.T) {
	best := func(flags ...string) []evaluation.Best {
		t.Helper()
		var r evaluation.Report
		text := succeed(t, append(append(quickTuning, "--policy", "static:small", "--format", "json"), flags...)...)
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		return r.Tuning.Best
	}
	if reflect.DeepEqual(best(), best("--routers", "3", "--gauge-interval", "0s")) {
		t.Error("the search has the same scores with one router and with three")
	}
}

func TestEvalPrintsTheSearch(t *testing.T) {
	text := succeed(t, append(quickTuning, "--policy", "static:small")...)
	if !strings.HasPrefix(text, "Tuned on 1 training seeds of u1, stable:4:\n") || !strings.Contains(text, "\n\nWORKLOAD") {
		t.Errorf("printed\n%s", text)
	}
}

// Rules are tuned for the scenario's objective, unless the flag names another; the report says
// which, where it is not mean utility.
func TestEvalTunesForTheScenariosObjective(t *testing.T) {
	aimed := edited(t, "tiny", "\ntraining:\n", "\ntraining:\n  objective: near-peak\n")
	tune := []string{"eval", "--scenario", aimed, "--policy", "slackfit", "--workload", "u1", "--requests", "100", "--seeds", "1", "--tune", "--tune-seeds", "1", "--tune-trials", "1"}
	text := succeed(t, tune...)
	for _, want := range []string{"Tuned for near-peak on 1 training seeds of u1:\n", `evaluation.rules_for, key "near-peak", wants`, " near-peak  IN TIME"} {
		if !strings.Contains(text, want) {
			t.Errorf("printed\n%swant %q", text, want)
		}
	}
	var r evaluation.Report
	if err := json.Unmarshal([]byte(succeed(t, append(tune, "--format", "json")...)), &r); err != nil || r.Tuning.Objective != evaluation.NearPeak {
		t.Errorf("tuned for %s, %v", r.Tuning.Objective, err)
	}
	if text := succeed(t, append(tune, "--tune-for", "utility")...); !strings.HasPrefix(text, "Tuned on 1 training seeds") || !strings.Contains(text, "evaluation.rules wants") {
		t.Errorf("for utility:\n%s", text)
	}
	alone := succeed(t, "eval", "--scenario", aimed, "--policy", "slackfit", "--workload", "u1", "--requests", "100", "--seeds", "1")
	if !strings.Contains(alone, " near-peak  IN TIME") {
		t.Errorf("rules in a scenario for near-peak:\n%s", alone)
	}
}

func TestTuneFlagErrors(t *testing.T) {
	fail(t, []string{"eval", "--scenario", "tiny", "--tune", "--tune-seeds", "0"}, "--tune-seeds 0", "at least 1")
	fail(t, []string{"eval", "--scenario", "tiny", "--tune", "--tune-trials", "-1"}, "--tune-trials -1", "at least 1")
	fail(t, []string{"eval", "--scenario", "tiny", "--tune", "--tune-for", "speed"}, "--tune-for", "want utility, near-peak, power:P or windows:SHARE,N")
	fail(t, []string{"eval", "--scenario", "tiny", "--tune", "--tune-for", ""}, "--tune-for", "want an objective: utility")
}
