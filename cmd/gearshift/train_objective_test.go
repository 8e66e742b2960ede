//go:build !serveonly

package main

import (
	"strings"
	"testing"

	"gearshift/checkpoints"
)

// A policy is trained for the scenario's objective, or for the one that the command names:
// the checkpoint remembers which, and a run for one does not go on for another.
func TestTrainingForAnObjective(t *testing.T) {
	path := storePath(t)
	for name, test := range map[string]struct {
		scenario string
		flags    []string
		want     string
	}{
		"plain":   {"tiny", nil, ""},
		"told":    {"tiny", []string{"--objective", "near-peak"}, "near-peak"},
		"written": {edited(t, "tiny", "\ntraining:\n", "\ntraining:\n  objective: power:8\n"), nil, "power:8"},
		"over":    {edited(t, "tiny", "\ntraining:\n", "\ntraining:\n  objective: power:8\n"), []string{"--objective", "utility"}, ""},
	} {
		args := append([]string{"train", "--scenario", test.scenario, "--preset", "quick", "--store", path, "--name", name, "--steps", "1000"}, test.flags...)
		code, _, stderr := gearshift(t, args...)
		if says := strings.Contains(stderr, ", for "+test.want+", into"); code != 0 || says != (test.want != "") || strings.Contains(stderr, "utility") != (test.want == "") {
			t.Errorf("%s: exit code %d, %s", name, code, stderr)
		}
		c, _, err := (&checkpoints.Store{Path: path}).Get(checkpoints.Ref{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		if c.Meta.Objective != test.want {
			t.Errorf("%s: trained for %q, want %q", name, c.Meta.Objective, test.want)
		}
	}
	resume := func(flags ...string) []string {
		return append([]string{"train", "--scenario", "tiny", "--preset", "quick", "--store", path, "--resume"}, flags...)
	}
	fail(t, resume("--name", "told"), `cannot resume run "told": it began for near-peak, now it is for utility; give --objective near-peak to continue it`)
	fail(t, resume("--name", "plain", "--objective", "power:8"), "it began for utility, now it is for power:8; give --objective utility")
	succeed(t, resume("--name", "told", "--objective", "near-peak", "--steps", "1500")...)
	fail(t, []string{"train", "--scenario", "tiny", "--preset", "quick", "--store", path, "--name", "fourth", "--from", "told"},
		"observes other numbers", "it was trained for near-peak, and this run is for utility; --objective near-peak")
	succeed(t, "train", "--scenario", "tiny", "--preset", "quick", "--store", path, "--name", "third", "--from", "written", "--objective", "power:2", "--steps", "100")
}

func TestObjectivesThatAreRefused(t *testing.T) {
	train := []string{"train", "--scenario", "tiny", "--preset", "quick", "--store", storePath(t)}
	fail(t, append(train, "--objective", "best"), `unknown objective "best"`, "near-peak")
	fail(t, append(train, "--objective", "power:0"), "above 0")
	fail(t, append(train, "--objective", ""), "--objective", "want an objective: utility, near-peak")
	marginal := edited(t, "tiny", "members: 2 ", "marginal_rewards: true ")
	fail(t, append(train, "--scenario", marginal, "--objective", "near-peak"), "training.presets.quick.marginal_rewards", "training.objective")
}

// A policy is fine-tuned on a log for the objective that it was trained for, whatever the
// scenario says now.
func TestFineTuningKeepsTheObjective(t *testing.T) {
	store, path := storePath(t), brief(t)
	trainTiny(t, store, "--scenario", path, "--objective", "near-peak", "--steps", "300")
	s := scenarioOf(t, path)
	log := loggedRequests(t, mistaken(t, s, s), s, decides(t, s, store, "slackfit"), "u1", 200)
	tune := func(flags ...string) []string {
		return append([]string{"train", "--scenario", path, "--store", store, "--from", "tiny", "--steps", "5", "--from-log", log}, flags...)
	}
	fail(t, tune("--objective", "utility"), "--objective utility", "tiny@1 was trained for near-peak")
	succeed(t, tune()...)
	succeed(t, tune("--objective", "near-peak")...)
	for _, ref := range []string{"tiny@2", "tiny@3"} {
		if m := show(t, store, ref).Meta; m.Objective != "near-peak" || m.Log == nil {
			t.Errorf("%s is for %q, fine-tuned on %+v", ref, m.Objective, m.Log)
		}
	}
}
