//go:build !serveonly

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/internal/training"
	"gearshift/workloads"
)

// In a world whose large size is slower than the scenario says, a policy from the
// simulator earns too little. Fine-tuned on its own log it earns more there, though
// the simulator, which knows no better, says that it is none the better.
func TestFineTuningFollowsTheWorld(t *testing.T) {
	store, path := storePath(t), brief(t)
	trainTiny(t, store, "--scenario", path)
	s := scenarioOf(t, path)
	slow := write(t, "slow.yaml", strings.Replace(text(t, path), "weights_ms: 28.0", "weights_ms: 33.0", 1))
	fleet := mistaken(t, scenarioOf(t, slow), s)
	log := loggedRequests(t, fleet, s, decides(t, s, store, "tiny@1"), "u2", 8000)
	succeed(t, "train", "--scenario", path, "--store", store, "--from", "tiny", "--from-log", log)
	// The rule stands in where it did: a log shows too little of what lies beyond.
	was, is := show(t, store, "tiny@1").Meta.Seen, show(t, store, "tiny@2").Meta.Seen
	if len(was) == 0 || !slices.Equal(was, is) {
		t.Errorf("training has seen up to %v, and after the log %v", was, is)
	}
	work, err := s.Evaluated([]string{"u1", "u2"}, 2000)
	if err != nil {
		t.Fatal(err)
	}
	plan := evaluation.Plan{Workloads: work, Seeds: workloads.Seeds(workloads.Evaluation, 6)}
	for _, ref := range []string{"tiny@1", "tiny@2"} {
		plan.Contestants = append(plan.Contestants, evaluation.Contestant{Name: ref, Decider: decides(t, s, store, ref), Fleet: fleet})
	}
	results, err := plan.Evaluate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range work {
		over, err := evaluation.Paired(results[len(work)+i].Runs, results[i].Runs)
		t.Logf("%s: %.3f → %.3f, %+v", work[i].Name, results[i].Utility.Mean, results[len(work)+i].Utility.Mean, over)
		if err != nil || over.Lo <= 0 {
			t.Errorf("%s: the fine-tuned policy earns %+v more", work[i].Name, over)
		}
	}
}

// brief is tiny with evaluations that are soon over.
func brief(t *testing.T) string {
	t.Helper()
	text := succeed(t, "scenario", "show", "tiny")
	for from, to := range map[string]string{"requests: 2000 ": "requests: 200 ", "[0.5, 1, 2, 3, 4, 6, 8, 12]": "[2, 6]"} {
		if !strings.Contains(text, from) {
			t.Fatalf("tiny has no %q", from)
		}
		text = strings.Replace(text, from, to, 1)
	}
	return write(t, "brief.yaml", text)
}

// The same log and seed give the same bytes, on one core or two; the checkpoint
// says what it was made of.
func TestFineTuningRepeats(t *testing.T) {
	store, path := storePath(t), brief(t)
	trainTiny(t, store, "--scenario", path, "--name", "tiny", "--steps", "1500")
	s := scenarioOf(t, path)
	log := loggedRequests(t, mistaken(t, s, s), s, decides(t, s, store, "tiny@1"), "u1", 400)
	tuned := func(flags ...string) string {
		out := succeed(t, append([]string{"train", "--scenario", path, "--store", store, "--from", "tiny@1", "--steps", "20", "--from-log", log}, flags...)...)
		return regexp.MustCompile(`sha256 ([0-9a-f]{64})`).FindStringSubmatch(out)[1]
	}
	first := tuned()
	procs := runtime.GOMAXPROCS(1)
	again := tuned()
	runtime.GOMAXPROCS(procs)
	if other := tuned("--seed", "2", "--name", "other"); first != again || other == first {
		t.Errorf("seed 1 twice: %s and %s; seed 2: %s", first, again, other)
	}
	c, entry, err := (&checkpoints.Store{Path: store}).Get(checkpoints.Ref{Name: "tiny"})
	if err != nil || entry.Ref().Version != 3 {
		t.Fatalf("%v: %s", err, entry.Ref())
	}
	var outcome training.Outcome
	if l := c.Meta.Log; l == nil || l.Requests != 400 || l.Recorded != 319 || l.Explored == 0 || l.Steps != 20 ||
		len(l.Files) != 1 || l.Files[0] != "experience.jsonl" || len(l.SHA256) != 64 || json.Unmarshal(l.Outcome, &outcome) != nil {
		t.Errorf("%+v", c.Meta.Log)
	}
	if c.Meta.OwnEpisodes {
		t.Error("networks that replay one log are said to have episodes of their own")
	}
	if outcome.From != "tiny@1" || outcome.Before == 0 || outcome.HeldOut == nil || outcome.Requests != 80 || c.Meta.From == "" || c.Meta.Preset != "quick" {
		t.Errorf("%+v, %+v", outcome, c.Meta)
	}
}

// A policy that chooses the replica learns from logged replicas.
func TestFineTuningOfAPlacingPolicy(t *testing.T) {
	brief, err := os.ReadFile(brief(t))
	if err != nil {
		t.Fatal(err)
	}
	text := string(brief)
	text = strings.Replace(text, "      advice_margin: 0.02 ", "      candidate: [{kind: variant-one-hot}, {kind: pace, scale: [1]}] ", 1)
	text = strings.Replace(strings.Replace(text, "      advice_margin: 0.02", "", 1), "- {kind: advice, rule: slackfit}", "", 1)
	path := write(t, "placing.yaml", text)
	store, s := storePath(t), scenarioOf(t, path)
	trainTiny(t, store, "--scenario", path, "--steps", "1000")
	log := loggedRequests(t, mistaken(t, s, s), s, decides(t, s, store, "tiny@1"), "u1", 300)
	out := succeed(t, "train", "--scenario", path, "--store", store, "--from", "tiny", "--from-log", log)
	if !strings.Contains(out, "learnt from 239 logged") || !strings.Contains(out, "stored policy tiny@2") {
		t.Errorf("%s", out)
	}
}

func TestFineTuningFaults(t *testing.T) {
	store, path := storePath(t), brief(t)
	trainTiny(t, store, "--scenario", path, "--steps", "300")
	s := scenarioOf(t, path)
	log := loggedRequests(t, mistaken(t, s, s), s, decides(t, s, store, "slackfit"), "u1", 30)
	train := func(flags ...string) []string {
		return append([]string{"train", "--scenario", path, "--store", store}, flags...)
	}
	fail(t, train("--from", "tiny", "--from-log", log, "--held-out", "0.3"), "--held-out is for --trace")
	fail(t, train("--from", "nobody", "--from-log", log), `--from "nobody"`, "no policy")
	fail(t, train("--from", "tiny", "--from-log", "no.jsonl"), "no.jsonl", "cannot read experience")
	fail(t, train("--from", "tiny", "--from-log", log, "--resume"), "--resume has no meaning with --from-log")
	fail(t, train("--from", "tiny", "--from-log", log, "--steps", "-1"), "--steps -1")
	fail(t, train("--from", "tiny", "--from-log", log, log), "give each file once")
	fail(t, train("--from", "tiny", "--from-log", log, "--preset", "none"), `no preset "none"`)
	fail(t, []string{"train", "--scenario", "titan-rtx-opt", "--store", store, "--from", "tiny", "--from-log", log}, "observes other numbers")
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	alone := filepath.Join(t.TempDir(), "alone.jsonl") // no two requests in a row
	if err := os.WriteFile(alone, []byte(lines[0]+lines[1]+lines[3]+lines[5]), 0o600); err != nil {
		t.Fatal(err)
	}
	fail(t, train("--from", "tiny", "--from-log", alone), "no recorded decision is followed by another")
	broken := filepath.Join(t.TempDir(), "broken.jsonl")
	if err := os.WriteFile(broken, []byte(lines[0]+"{}\n"+lines[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	fail(t, train("--from", "tiny", "--from-log", broken), "broken.jsonl:2: id, decision: missing")
}
