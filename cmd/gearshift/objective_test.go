//go:build !serveonly

package main

import (
	"encoding/csv"
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/internal/calibrate/enginetest"
	"gearshift/internal/training/policies"
)

// steadyTiny stores a policy that was trained to stay near its peak, as mine.
func steadyTiny(t *testing.T) (file, store, said string) {
	t.Helper()
	file, store = brief(t), storePath(t)
	said = succeed(t, "train", "--scenario", file, "--preset", "quick", "--steps", "300", "--objective", "near-peak", "--store", store, "--name", "mine")
	return file, store, said
}

// What a policy was trained for is what train, eval and promote compare it by, with the same
// numbers, and what a file of it is judged by again.
func TestPoliciesAreJudgedByTheirObjective(t *testing.T) {
	file, store, said := steadyTiny(t)
	held := heldOutOf(t, store, "mine")
	verdict := held.Verdict("mine@1")
	if verdict.Objective != evaluation.NearPeak || !strings.Contains(said, verdict.String()) || !strings.Contains(verdict.String(), ") of near-peak, paired over 10 seeds: ") {
		t.Fatalf("train says\n%sand stores %+v", said, verdict)
	}
	args := []string{"--scenario", file, "--store", store, "--policy", "mine", "--workload", "u1", "--workload", "u2", "--workload", "stable"}
	r := evaluate(t, args...)
	if len(r.Verdicts) != 1 || !reflect.DeepEqual(r.Verdicts[0], verdict) {
		t.Errorf("eval says %+v, stored is %+v", r.Verdicts, verdict)
	}
	tableShowsObjectives(t, r, held)
	code, _, refusal := gearshift(t, "policy", "promote", "mine", "--store", store)
	if held.Better() != (code == 0) || code != 0 && (!strings.Contains(refusal, verdict.String()) || !strings.Contains(refusal, "near-peak (95 %)") || !strings.Contains(refusal, "UTILITY")) {
		t.Errorf("the verdict is %s; promote: exit code %d, %s", verdict, code, refusal)
	}
	for command, want := range map[string]string{"show mine": "objective near-peak", "ls": ": " + verdict.Word() + " (near-peak)", "ls --wide": "SCENARIO PRESET OBJECTIVE SEED"} {
		if out := succeed(t, append(append([]string{"policy"}, strings.Fields(command)...), "--store", store)...); !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("policy %s does not say %q:\n%s", command, want, out)
		}
	}

	onnx := filepath.Join(t.TempDir(), "mine.onnx")
	succeed(t, "policy", "export", "mine", "--store", store, "--onnx", onnx)
	imported := succeed(t, "policy", "import", onnx, "--scenario", file, "--store", store, "--name", "again")
	if !strings.Contains(imported, verdict.String()) || !reflect.DeepEqual(heldOutOf(t, store, "again"), held) || show(t, store, "again").Meta.Objective != "near-peak" {
		t.Errorf("import says\n%swant %s", imported, verdict)
	}
}

// tableShowsObjectives checks that a report has the value of each row that the stored
// comparison has.
func tableShowsObjectives(t *testing.T, r evaluation.Report, held policies.HeldOut) {
	t.Helper()
	found := 0
	for _, x := range append(r.Results, r.Opponents...) {
		if len(x.Objectives) != 1 || x.Objectives[0].Objective != evaluation.NearPeak {
			t.Fatalf("%s on %s has the values %+v", x.Policy, x.Workload, x.Objectives)
		}
		for _, row := range held.Policies {
			if row.Policy != x.Policy {
				continue
			}
			if want, ok := row.Values[x.Workload]; ok {
				found++
				if want != x.Objectives[0].Value || row.Utility[x.Workload] != x.Utility {
					t.Errorf("%s on %s: eval has %+v, %+v, stored are %+v, %+v", x.Policy, x.Workload, x.Objectives[0].Value, x.Utility, want, row.Utility[x.Workload])
				}
			}
		}
	}
	if want := 3 * (len(held.Policies) - 1); found != want { // the policy has another name there
		t.Errorf("%d values are in both, want %d", found, want)
	}
}

// All forms of a report have the objective's column, within 100 columns for people; one of
// rules alone has none.
func TestEvalShowsObjectives(t *testing.T) {
	file, store, _ := steadyTiny(t)
	args := []string{"eval", "--scenario", file, "--store", store, "--policy", "mine", "--workload", "u1", "--seeds", "2"}
	short := succeed(t, args...)
	for line := range strings.Lines(short) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 && !strings.Contains(line, store) {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if head, _, _ := strings.Cut(short, "\n"); strings.Join(strings.Fields(head), " ") != "WORKLOAD POLICY UTILITY (95 %) near-peak IN TIME small/large" {
		t.Errorf("columns %s", head)
	}
	if wide := succeed(t, append(args, "--wide")...); !strings.Contains(wide, "near-peak (95 %)") || !strings.Contains(wide, "UTILITY OVER THE BEST RULE") {
		t.Errorf("wide:\n%s", wide)
	}
	rows, err := csv.NewReader(strings.NewReader(succeed(t, append(args, "--format", "csv")...))).ReadAll()
	if err != nil || rows[0][len(rows[0])-3] != "near-peak_mean" {
		t.Errorf("columns %v, %v", rows[0], err)
	}
	tuned := succeed(t, "eval", "--scenario", file, "--policy", "slackfit", "--workload", "u1", "--seeds", "1", "--tune", "--tune-for", "near-peak", "--tune-trials", "1", "--tune-seeds", "1")
	if !strings.Contains(tuned, "UTILITY (95 %)       near-peak  IN TIME") {
		t.Errorf("tuned for near-peak:\n%s", tuned)
	}
	rules := []string{"eval", "--scenario", file, "--policy", "slackfit", "--workload", "u1", "--seeds", "1"}
	for _, format := range []string{"table", "json", "csv"} {
		if out := succeed(t, append(rules, "--format", format)...); strings.Contains(out, "near-peak") || strings.Contains(out, "objective") {
			t.Errorf("of rules:\n%s", out)
		}
	}
}

// A policy that another version trained for what this one does not know is refused by name,
// and the store can still be listed.
func TestPoliciesForUnknownObjectives(t *testing.T) {
	path := enginetest.Store(t, "tiny", "mine")
	store := &checkpoints.Store{Path: path}
	c, _, err := store.Get(checkpoints.Ref{Name: "mine", Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	c.Meta.Objective = "calm:3"
	unknown := strings.Replace(string(glowing(t)), `"held_out":{`, `"held_out":{"objective":"calm:3",`, 1)
	if err := c.Evaluated(json.RawMessage(unknown)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Put("newer", c, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	const names = `unknown objective "calm:3"`
	fail(t, []string{"eval", "--scenario", "tiny", "--store", path, "--policy", "newer@1"}, "cannot evaluate policy newer@1", names)
	fail(t, []string{"bound", "--scenario", "tiny", "--store", path, "--policy", "newer@1"}, names)
	fail(t, []string{"policy", "promote", "newer", "--store", path}, "cannot promote newer@1: its evaluation cannot be read", names)
	fail(t, []string{"policy", "import", exported(t, c, ""), "--scenario", "tiny", "--store", path, "--name", "theirs"}, names)
	for _, command := range []string{"ls", "show newer@1"} {
		if out := succeed(t, append(append([]string{"policy"}, strings.Fields(command)...), "--store", path)...); !strings.Contains(out, "newer@1") {
			t.Errorf("policy %s:\n%s", command, out)
		}
	}
}
