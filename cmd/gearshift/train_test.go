//go:build !serveonly

package main

import (
	"bytes"
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
	"gearshift/internal/calibrate/enginetest"
	"gearshift/internal/scenario"
	"gearshift/internal/training"
	"gearshift/rl"
	"gearshift/workloads"
)

// train runs training on the tiny scenario and returns the checkpoint's digest.
func trainTiny(t *testing.T, store string, flags ...string) string {
	t.Helper()
	out := succeed(t, append([]string{"train", "--scenario", "tiny", "--preset", "quick", "--store", store}, flags...)...)
	digest := regexp.MustCompile(`sha256 ([0-9a-f]{64})`).FindStringSubmatch(out)
	if digest == nil {
		t.Fatalf("train printed no digest: %s", out)
	}
	return digest[1]
}

// The same seed gives the same checkpoint, byte for byte, on one core or two;
// another seed gives another.
func TestTrainingRepeats(t *testing.T) {
	first := trainTiny(t, storePath(t), "--seed", "7")
	procs := runtime.GOMAXPROCS(1)
	again := trainTiny(t, storePath(t), "--seed", "7")
	runtime.GOMAXPROCS(procs)
	if first != again {
		t.Errorf("seed 7 twice: %s and %s", first, again)
	}
	if other := trainTiny(t, storePath(t), "--seed", "8"); other == first {
		t.Errorf("seeds 7 and 8 give the same checkpoint %s", other)
	}
}

// The store keeps ten versions of a name, beside those with an alias; who stores one
// more is told which has gone.
func TestTrainingSaysWhichVersionsAreRemoved(t *testing.T) {
	path := enginetest.Store(t, "tiny", "mine")
	for range 9 {
		again(t, path, "mine")
	}
	succeed(t, "policy", "promote", "mine@1", "--force", "--reason", "a test", "--store", path)
	train := []string{"train", "--scenario", "tiny", "--preset", "quick", "--store", path, "--name", "mine", "--steps", "10", "--restart"}
	for _, want := range []string{"stored policy mine@11", "removed mine@2, the oldest without an alias\n"} {
		if out := succeed(t, train...); !strings.Contains(out, want) || strings.Contains(out, "removed") != strings.Contains(want, "removed") {
			t.Errorf("no %q in %s", want, out)
		}
	}
}

// A network of several environments is the same on one core and on two, and where
// it was stopped on the way.
func TestTrainingInSeveralEnvironments(t *testing.T) {
	scenario := edited(t, "tiny", "members: 2 ", "environments: 3 ")
	train := func(store string, flags ...string) string {
		return trainTiny(t, store, append([]string{"--scenario", scenario, "--steps", "3000"}, flags...)...)
	}
	want := train(storePath(t))
	procs := runtime.GOMAXPROCS(1)
	alone := train(storePath(t))
	runtime.GOMAXPROCS(procs)
	if alone != want {
		t.Errorf("%s on one core, else %s", alone, want)
	}
	store := storePath(t)
	train(store, "--steps", "1234")
	if got := train(store, "--resume"); got != want {
		t.Errorf("resumed %s, straight %s", got, want)
	}
	many := edited(t, "tiny", "members: 2 ", "environments: -3 ")
	fail(t, []string{"train", "--scenario", many, "--preset", "quick"}, "edited.yaml", "training.presets.quick.environments", "-3")
}

// The networks of a run are trained apart, each with progress and curves of its
// own; the policy is their mean, on top of the rule's advice.
func TestMembersAreTrainedApart(t *testing.T) {
	path, out := storePath(t), t.TempDir()
	trainTiny(t, path, "--out", out)
	store := &checkpoints.Store{Path: path}
	c, _, err := store.Get(checkpoints.Ref{Name: "tiny"})
	if err != nil {
		t.Fatal(err)
	}
	// Two of 32 units, and one for each size to pass the advice on; values of both.
	if want := []int{c.Meta.Spec.Dim(), 2*32 + 2, 2 * 2}; !slices.Equal(c.Network.Sizes, want) {
		t.Errorf("layers %v, want %v", c.Network.Sizes, want)
	}
	if len(c.Meta.Seen) != c.Meta.Spec.Dim() {
		t.Errorf("the range of %d inputs is stored, of %d", len(c.Meta.Seen), c.Meta.Spec.Dim())
	}
	if c.Meta.AdviceMargin < 0.02 || c.Meta.Caution == 0 {
		t.Errorf("the margin is %v, the caution %v", c.Meta.AdviceMargin, c.Meta.Caution)
	}
	trainTiny(t, path, "--steps", "3000")
	first, err := store.GetTraining("tiny")
	if err != nil {
		t.Fatal(err)
	}
	second, err := store.GetTraining("tiny+2")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(first.Progress, second.Progress) {
		t.Error("both networks are the same")
	}
	for _, file := range []string{"progress.csv", "member-2/progress.csv"} {
		if info, err := os.Stat(filepath.Join(out, file)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// evaluate returns an evaluation's rows, without the one figure that may differ.
func evaluate(t *testing.T, args ...string) evaluation.Report {
	t.Helper()
	var r evaluation.Report
	out := succeed(t, append([]string{"eval", "--format", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	for i := range r.Results {
		r.Results[i].SimRequestsPerS = 0
	}
	return r
}

// A short training run learns to beat every static size by a margin, and its
// evaluation repeats exactly.
func TestShortTrainingBeatsStaticSizes(t *testing.T) {
	store := storePath(t)
	trainTiny(t, store, "--name", "short")
	args := []string{"--scenario", "tiny", "--store", store, "--policy", "short", "--policy", "static:small", "--policy", "static:large",
		"--workload", "u1", "--workload", "stable:2", "--seeds", "5", "--requests", "3000"}
	report := evaluate(t, args...)
	utility := map[string]float64{}
	for _, r := range report.Results {
		if r.Workload == "u1" {
			utility[strings.TrimSuffix(r.Policy, "@1")] = r.Utility.Mean
		}
	}
	if bar := max(utility["static:small"], utility["static:large"]) + 0.05; utility["short"] < bar {
		t.Errorf("utility on U1 %v: the trained policy is below %.3f", utility, bar)
	}
	procs := runtime.GOMAXPROCS(1)
	again := evaluate(t, args...)
	runtime.GOMAXPROCS(procs)
	if a, b := toJSON(t, report), toJSON(t, again); a != b {
		t.Errorf("the same evaluation twice:\n%s\n%s", a, b)
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Curves are written for spreadsheets and TensorBoard.
func TestTrainingWritesCurves(t *testing.T) {
	out := t.TempDir()
	trainTiny(t, storePath(t), "--out", out, "--steps", "3000")
	csv, err := os.ReadFile(filepath.Join(out, "progress.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(string(csv)), "\n"); len(lines) != 4 || !strings.Contains(lines[0], "rollout/exploration_rate") {
		t.Errorf("progress.csv: %s: want a header and a row each 1000 decisions", csv)
	}
	if events, _ := filepath.Glob(filepath.Join(out, "events.out.tfevents.*")); len(events) != 1 {
		t.Errorf("event files: %v", events)
	}
}

// A full disk takes the curves, and not what was trained.
func TestPolicyIsStoredWithoutItsCurves(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full here")
	}
	dir := t.TempDir()
	if err := os.Symlink("/dev/full", filepath.Join(dir, "progress.csv")); err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(dir, "s.db")
	code, stdout, stderr := gearshift(t, "train", "--scenario", "tiny", "--preset", "quick", "--steps", "500", "--store", store, "--out", dir)
	if code != 1 || !strings.Contains(stderr, "cannot write training curves") || !strings.Contains(stdout, "stored policy tiny@1") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	if list := succeed(t, "policy", "ls", "--store", store); !strings.Contains(list, "tiny@1") {
		t.Errorf("the store holds %s", list)
	}
}

// Fine-tuning begins with the stored weights, and says where they come from.
func TestFineTuning(t *testing.T) {
	path := storePath(t)
	digest := trainTiny(t, path, "--name", "first")
	trainTiny(t, path, "--name", "second", "--from", "first", "--steps", "100") // before any gradient step
	store := &checkpoints.Store{Path: path}
	first, _, err := store.Get(checkpoints.Ref{Name: "first"})
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := store.Get(checkpoints.Ref{Name: "second"})
	if err != nil {
		t.Fatal(err)
	}
	if second.Meta.From != digest {
		t.Errorf("fine-tuned from %q, want %q", second.Meta.From, digest)
	}
	for i := range first.Network.Weights {
		if !slices.Equal(first.Network.Weights[i], second.Network.Weights[i]) || !slices.Equal(first.Network.Biases[i], second.Network.Biases[i]) {
			t.Errorf("layer %d differs before any step", i)
		}
	}
	args := []string{"train", "--scenario", "tiny", "--preset", "quick", "--store", path, "--name"}
	fail(t, append(args, "third", "--from", "nobody"), "--from", "nobody")
	fail(t, append(args, "second", "--resume"), "the weights of "+digest, "now it is chance")
}

func TestTrainRefuses(t *testing.T) {
	store := storePath(t)
	tiny := []string{"train", "--scenario", "tiny", "--preset", "quick", "--store", store}
	with := func(flags ...string) []string { return append(append([]string{}, tiny...), flags...) }
	one := edited(t, "titan-rtx-opt", "\nserving:\n", "\nserving:\n  placement: {rule: worth}\n")
	fail(t, []string{"train", "--scenario", one, "--placement", "--name", "gears", "--store", store}, "each host has one layout, so that there is nothing to decide")
	fail(t, []string{"train", "--scenario", "nowhere"}, "nowhere", "titan-rtx-opt")
	fail(t, []string{"train", "--scenario", "tiny", "--preset", "fast"}, `"fast"`, "quick")
	fail(t, with("--resume"), "resume", "store")
	fail(t, with("--steps", "-1"), "--steps")
	fail(t, with("--steps", "1000000"), "--steps", "decisions")
	fail(t, with("--seed", "5000000000"), "--seed")
	fail(t, with("--name", "slackfit"), "slackfit", "name")
	fail(t, with("--name", "a:b"), "a:b")
	fail(t, with("--store", ""), "cannot create store: it has no name")
	trainTiny(t, store, "--steps", "1000")
	fail(t, with("--resume", "--seed", "2"), "seed 1", "now it is 2")
	other := edited(t, "tiny", "contention: ", "contention: 1")
	fail(t, []string{"train", "--scenario", other, "--preset", "quick", "--store", store, "--name", "tiny", "--resume"}, "hash")
}

// Lengths without a max are cut to what fits wherever requests are drawn.
func TestLengthsWithoutMaxEndNoSimulation(t *testing.T) {
	text := succeed(t, "scenario", "show", "tiny")
	for _, cut := range [][2]string{
		{"{distribution: geometric, mean: 32, max: 200}", "{distribution: lognormal, mean: 2000, cv: 9}"},
		{"{distribution: uniform, min: 20, max: 60}", "{distribution: lognormal, mean: 500, cv: 9}"},
	} {
		if !strings.Contains(text, cut[0]) {
			t.Fatalf("the scenario has no %s", cut[0])
		}
		text = strings.Replace(text, cut[0], cut[1], 1)
		file := write(t, "open.yaml", text)
		succeed(t, "eval", "--scenario", file, "--policy", "static:small", "--workload", "poisson:1", "--seeds", "1", "--requests", "300", "--out", t.TempDir())
		s, err := scenario.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		e, err := training.NewEnvironment(s, s.Spec(), &rl.Config{Episode: 300})
		if err != nil {
			t.Fatal(err)
		}
		e.Reset(1)
		for range 300 {
			if e.Step(0); e.Err() != nil {
				t.Fatal(e.Err())
			}
		}
		process, err := workloads.NewPoisson(1)
		if err != nil {
			t.Fatal(err)
		}
		stream, err := workloads.New(process, s.Table().Tasks, s.Workload, 1, workloads.Limit{Requests: 300})
		if err != nil {
			t.Fatal(err)
		}
		for a, ok := stream.Next(); ok; a, ok = stream.Next() {
			if need := a.PromptTokens + a.OutputTokens; need > s.SmallestCache() {
				t.Errorf("a request of %d tokens; %d fit", need, s.SmallestCache())
			}
		}
	}
}

// Training for placement has two presets of its own.
func TestPlacementRefusesOtherPresets(t *testing.T) {
	fail(t, []string{"train", "--placement", "--name", "gears", "--preset", "nope", "--scenario", "tiny", "--store", storePath(t)},
		"--preset nope is unknown with --placement; want quick or default")
}
