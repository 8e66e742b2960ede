//go:build !serveonly

package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"gearshift/checkpoints"
	"gearshift/internal/training/policies"
)

// A policy is trained on the first part of a trace and judged on the last, which the store, show
// and the gate name; eval plays the same blocks.
func TestTrainingOnATrace(t *testing.T) {
	store, path := storePath(t), brief(t)
	trace := []string{"--scenario", path, "--trace", "arena", "--steps", "1500", "--preset", "quick"}
	out := trainOn(t, store, trace...)
	if !strings.Contains(out, "tiny@1 on trace:arena+lengths+last:0.5/10: over the best rule, ") || !strings.Contains(out, "paired over 10 blocks") {
		t.Errorf("%s", out)
	}
	c, entry, err := (&checkpoints.Store{Path: store}).Get(checkpoints.Ref{Name: "tiny"})
	if err != nil {
		t.Fatal(err)
	}
	m := c.Meta.Traffic
	if m == nil || m.Requests != 1500 || m.Trained != 563 || m.Validated != 187 || m.HeldOut != 750 || len(m.SHA256) != 64 {
		t.Errorf("%+v", m)
	}
	var evaluation policies.Evaluation
	if err := json.Unmarshal(entry.Meta.Evaluation, &evaluation); err != nil || evaluation.HeldOut.Seeds != 10 || len(evaluation.HeldOut.Policies) < 3 {
		t.Errorf("%+v, %v", evaluation, err)
	}
	shown := succeed(t, "policy", "show", "tiny", "--store", store)
	if !strings.Contains(shown, "trace:arena+lengths ("+m.SHA256[:12]+"): the first 750 of 1500 requests") || !strings.Contains(shown, "on 10 held-out blocks:") {
		t.Errorf("%s", shown)
	}
	played := succeed(t, "eval", "--scenario", path, "--store", store, "--policy", "tiny@1", "--workload", "trace:arena+lengths+last:0.5/10", "--seeds", "10", "--format", "json")
	var report struct {
		Results []struct {
			Policy  string
			Utility struct{ Mean float64 }
		}
	}
	if err := json.Unmarshal([]byte(played), &report); err != nil || len(report.Results) == 0 {
		t.Fatalf("%v: %s", err, played)
	}
	if got, want := report.Results[0].Utility.Mean, evaluation.HeldOut.Policies[0].Score.Mean; got != want {
		t.Errorf("eval says %v, training %v", got, want)
	}
	fail(t, []string{"train", "--scenario", path, "--store", store, "--preset", "quick", "--resume"}, "it began with traffic trace:arena+lengths", "drawn by training.load")
}

// trainOn trains under the name tiny and returns what is printed.
func trainOn(t *testing.T, store string, flags ...string) string {
	t.Helper()
	return succeed(t, append([]string{"train", "--store", store, "--name", "tiny"}, flags...)...)
}

// The arrivals of a log are traffic like a trace's.
func TestTrainingOnALogsArrivals(t *testing.T) {
	store, path := storePath(t), brief(t)
	s := scenarioOf(t, path)
	log := loggedRequests(t, mistaken(t, s, s), s, decides(t, s, store, "slackfit"), "u1", 2000)
	out := trainOn(t, store, "--scenario", path, "--preset", "quick", "--from-log", log, "--steps", "1500", "--held-out", "0.4")
	if !strings.Contains(out, "on log:experience.jsonl +last:0.4/10: over the best rule") {
		t.Errorf("%s", out)
	}
	if m := show(t, store, "tiny@1").Meta.Traffic; m == nil || m.Name != "log:experience.jsonl" || m.HeldOut != 800 || m.Trained != 900 {
		t.Errorf("%+v", m)
	}
}

func TestTracesThatAreNotTrainedOn(t *testing.T) {
	store, path := storePath(t), brief(t)
	train := func(flags ...string) []string {
		return append([]string{"train", "--scenario", path, "--store", store}, flags...)
	}
	lines := "at_s,prompt_tokens,output_tokens\n"
	short := write(t, "short.csv", lines+strings.Repeat("1,5,5\n", 700))
	fail(t, train("--trace", short), "700 requests are too few to train and judge on: 263 to learn from, 87 to validate on and 350 held out; at least 1067 would be enough with --held-out 0.5")
	once := write(t, "once.csv", lines+strings.Repeat("1,5,5\n", 2000))
	fail(t, train("--trace", once), "the first 750 requests all arrive at once")
	bad := write(t, "bad.csv", lines+"1,5,5\n2,x,5\n")
	fail(t, train("--trace", bad), "bad.csv:3: column prompt_tokens")
	fail(t, train("--trace", "arena", "--held-out", "1"), "--held-out 1 is not a share")
	fail(t, train("--trace", "arena+gpu:x2"), "want FILE[@RATE][+zero]")
	fail(t, train("--trace", "arena+last:0.5/10"), "+last is set by --held-out")
	fail(t, train("--trace", "arena", "--from-log", short), "--trace and --from-log exclude each other")
	fail(t, train("--held-out", "0.3"), "--held-out is for --trace")
	fail(t, train("--drawn-lengths"), "--drawn-lengths is for --trace")
	if _, err := os.Stat(store); err == nil {
		t.Error("a store was made")
	}
}
