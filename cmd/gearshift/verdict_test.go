//go:build !serveonly

package main

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/internal/training/policies"
)

// heldOutOf is the comparison that a stored policy carries.
func heldOutOf(t *testing.T, store, ref string) policies.HeldOut {
	t.Helper()
	r, err := checkpoints.ParseRef(ref)
	if err != nil {
		t.Fatal(err)
	}
	entry, err := (&checkpoints.Store{Path: store}).Lookup(r)
	if err != nil {
		t.Fatal(err)
	}
	var s policies.Evaluation
	if err := json.Unmarshal(entry.Meta.Evaluation, &s); err != nil {
		t.Fatal(err)
	}
	return s.HeldOut
}

// verdictLine is the words that every command has for a comparison.
var verdictLine = regexp.MustCompile(`over the best rule, (\S+), by ([+-]\d\.\d{4} \([+-]\d\.\d{4} to [+-]\d\.\d{4}\)), paired over (\d+) seeds: (better|level|worse)`)

// What eval says of a policy is what promote goes by, whatever rules eval is asked for:
// here the policy is better than the only rule named, and no better than one that the
// scenario lists.
func TestEvalAndPromoteTellOneStory(t *testing.T) {
	const strong = "task-aware:0.965,0.15,0.8,0.3,0.15" // as eval --tune finds
	file := edited(t, "tiny", "evaluation:\n", "evaluation:\n  rules: ['"+strong+"']\n")
	store := storePath(t)
	code, out, stderr := gearshift(t, "train", "--scenario", file, "--preset", "quick", "--steps", "300", "--store", store, "--name", "mine")
	if code != 0 {
		t.Fatal(stderr)
	}
	held := heldOutOf(t, store, "mine")
	if held.Better() {
		t.Fatalf("the policy's margin to %s is %+v; the test wants one that is not better", held.BestRule, held.Margin)
	}
	args := []string{"--scenario", file, "--store", store, "--policy", "mine", "--policy", "static:large", "--workload", "u1", "--workload", "u2", "--workload", "stable"}
	r := evaluate(t, args...)
	if len(r.Verdicts) != 1 || r.Verdicts[0].Rule != held.BestRule || r.Verdicts[0].Margin != held.Margin || r.Verdicts[0].Seeds != held.Seeds {
		t.Errorf("eval says %+v, the stored comparison is %+v", r.Verdicts, held)
	}
	listed := map[string]bool{}
	for _, x := range append(r.Results, r.Opponents...) {
		listed[x.Policy] = true
		if b := x.BestRule; b != nil && b.Policy == "static:large" && x.Workload == "stable" {
			t.Errorf("on %s the best rule is %s", x.Workload, b.Policy)
		}
	}
	s := scenarioOf(t, file)
	rules, err := policies.Opponents(s, evaluation.MeanUtility)
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		if !listed[rule.Name] {
			t.Errorf("eval does not show %s, which promote asks to beat", rule.Name)
		}
	}
	if x := mean(r, "mine@1"); x <= mean(r, "static:large") {
		t.Errorf("the policy earns %v, which is not above the rule that was named", x)
	}

	promote := "gearshift policy promote " + held.BestRule + " --store " + store
	trained := verdictLine.FindString(out)
	code, _, refusal := gearshift(t, "policy", "promote", "mine", "--store", store)
	if code != 1 || trained == "" || !strings.Contains(refusal, trained) || !strings.Contains(refusal, promote) {
		t.Errorf("train says %q, promote with exit code %d\n%s", trained, code, refusal)
	}
	if !strings.HasSuffix(out, held.Verdict("").Word()+" "+map[string]string{"level": "with", "worse": "than"}[held.Verdict("").Word()]+" the best rule; promote the rule: "+promote+"\n") {
		t.Errorf("train ends with\n%s", out)
	}
	for _, flags := range [][]string{nil, {"--wide"}} {
		text := strings.ReplaceAll(succeed(t, append(append([]string{"eval"}, args...), flags...)...), ",\n  by", ", by")
		if strings.Count(text, trained) != 1 || !strings.HasSuffix(text, " the best rule; promote the rule: "+promote+"\n") {
			t.Errorf("eval %v prints\n%s", flags, text)
		}
	}
	// On other workloads the stored comparison is shown beside that.
	text := strings.ReplaceAll(succeed(t, "eval", "--scenario", file, "--store", store, "--policy", "mine", "--workload", "poisson:1", "--seeds", "2", "--requests", "50"), ",\n  by", ", by")
	if strings.Count(text, "over the best rule, ") != 2 || !strings.Contains(text, "gearshift policy promote uses the stored comparison: mine@1 on u1, u2 and stable:\n  "+trained) {
		t.Errorf("eval on another workload prints\n%s", text)
	}
}

// mean is a policy's mean utility over the workloads.
func mean(r evaluation.Report, policy string) (sum float64) {
	for _, x := range r.Results {
		if x.Policy == policy && x.Workload != "stable" && !strings.HasPrefix(x.Workload, "stable:") {
			sum += x.Utility.Mean
		}
	}
	return sum
}

// By default eval shows whole workloads in 100 columns; --wide holds all figures, and
// neither changes what programs read.
func TestEvalIsShortByDefault(t *testing.T) {
	args := []string{"eval", "--scenario", "tiny", "--policy", "slackfit", "--policy", "clairvoyant:slackfit@1s",
		"--workload", "poisson:3", "--workload", "stable", "--seeds", "1", "--requests", "30"}
	short := succeed(t, args...)
	for line := range strings.Lines(short) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	wide := succeed(t, append(args, "--wide")...)
	for text, is := range map[string]struct{ short, wide bool }{
		"clairvoyant:slackfit:0.93@1s": {true, true}, "over the best rule, ": {true, true}, "threshold:8": {true, true}, "static:large": {true, true},
		"stable:12": {false, true}, "WINDOWS": {false, true}, "OVER THE BEST RULE": {false, true},
	} {
		if strings.Contains(short, text) != is.short || strings.Contains(wide, text) != is.wide {
			t.Errorf("%q: want it in the short table: %t, in the wide one: %t\n%s%s", text, is.short, is.wide, short, wide)
		}
	}
	plain, flagged := evaluate(t, args[1:]...), evaluate(t, append(args[1:], "--wide")...)
	if !reflect.DeepEqual(plain.Results, flagged.Results) || !reflect.DeepEqual(plain.Verdicts, flagged.Verdicts) || len(plain.Results) != 2*(8+2) {
		t.Errorf("%d and %d results", len(plain.Results), len(flagged.Results))
	}
}
