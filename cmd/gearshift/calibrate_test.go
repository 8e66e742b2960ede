//go:build !serveonly

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/serving/replay"
)

func TestCalibrateRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "walk")
	on := func(args ...string) []string {
		return append([]string{"calibrate", "--scenario", "tiny", "--dir", dir}, args...)
	}
	fail(t, []string{"calibrate", "--dir", dir}, "--scenario is missing")
	fail(t, []string{"calibrate", "--scenario", "tiny"}, "--dir DIR is missing")
	fail(t, []string{"calibrate", "--scenario", "none", "--dir", dir}, `"none"`)
	fail(t, []string{"calibrate", "--scenario", "titan-rtx-opt", "--dir", dir}, "4 hosts", "serving.upstreams")
	keyed := filepath.Join(t.TempDir(), "keyed.yaml")
	if err := os.WriteFile(keyed, []byte(strings.Replace(succeed(t, "scenario", "show", "tiny"), "serving:\n", "serving:\n  keys_file: keys.jsonl\n", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	fail(t, []string{"calibrate", "--scenario", keyed, "--dir", dir}, "serving.keys_file or serving.tls", "leave them out")
	fail(t, on("--from", "tea"), `--from "tea"`, "measure, scenario, validate, tune, train, evaluate, replay, validate-policy")
	fail(t, on("--preset", "grand"), "--preset", "grand")
	fail(t, on("--replay-time", "0s"), "--replay-time 0s")
	fail(t, on("--seeds", "0"), "--seeds 0")
	fail(t, on("--seeds", "9000000000000000000"), "at most 100000")
	fail(t, on("--turns", "-1"), "--turns -1")
	fail(t, on("--tune-trials", "-1"), "--tune-trials -1")
	fail(t, on("--validate-tries", "0"), "--validate-tries 0")
	fail(t, on("--replay-tries", "0"), "--replay-tries 0")
	for _, w := range []string{"u9", "stable", "u1+gpu:x2", "trace:none.jsonl"} {
		fail(t, on("--workload", w), "--workload "+w)
	}
	for _, ref := range []string{"static:huge", "slackfit:x", "clairvoyant:slackfit", "mine"} {
		fail(t, on("--policy", ref), "--policy "+ref)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("a refused walk left a folder: %v", err)
	}
}

// atLine does something when a line is written to it.
type atLine struct {
	bytes.Buffer
	line string
	do   func()
}

func (w *atLine) Write(p []byte) (int, error) {
	if string(p) == w.line {
		w.do()
	}
	return w.Buffer.Write(p)
}

// A finished step is skipped and said so; --from repeats it and what follows; another
// scenario does not go on in the same folder, unless its profiles are joined anew.
func TestCalibrateGoesOn(t *testing.T) {
	dir := t.TempDir()
	put := into(t, dir)
	input := succeed(t, "scenario", "show", "tiny")
	put("input.yaml", input)
	put("profile-small.yaml", strings.Replace(measuredLarge, "large", "small", 1))
	put("profile-large.yaml", measuredLarge)
	walk := []string{"calibrate", "--scenario", "tiny", "--dir", dir, "--preset", "quick", "--seeds", "1", "--requests", "50", "--workload", "poisson:3", "--policy", "slackfit", "--tune-trials", "2"}
	for _, name := range []string{"measured.yaml", "scenario.yaml", "train.txt", "eval.csv", "eval.json", "turn-1-1.json", "turn-1-2.json", "replay.json", "validate.json", "validate-policy.json"} {
		put(name, "")
	}
	out := succeed(t, walk...)
	if strings.Count(out, "finished already") != len(stepNames()) || !strings.Contains(out, "5 train: finished already; --from train repeats it") {
		t.Errorf("all is finished:\n%s", out)
	}
	remove := func(name string) {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	// A folder in the way of a step's file ends the walk there.
	block := func(name string) {
		remove(name)
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		put(filepath.Join(name, "x"), "")
	}
	joins := func(args ...string) {
		t.Helper()
		block("validate.json")
		code, out, stderr := gearshift(t, args...)
		if code != 1 || !strings.Contains(out, "1 measure: finished already") || !strings.Contains(out, "2 scenario\n") || !strings.Contains(stderr, "cannot repeat validate") {
			t.Errorf("exit code %d:\n%s%s", code, out, stderr)
		}
	}
	// The joined profiles are missing: what comes after them is repeated.
	remove("measured.yaml")
	joins(walk...)
	remove("validate.json")
	put("validate.json", "")
	interrupt := func(line string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stdout := &atLine{line: line, do: cancel}
		if code := run(ctx, walk, stdout, io.Discard); code != 130 {
			t.Errorf("interrupted at %q: exit code %d:\n%s", line, code, stdout)
		}
	}
	// Interrupted as a step ends: what rests on it does not pass for finished.
	interrupt("2 scenario\n")
	joined, err := os.ReadFile(filepath.Join(dir, "measured.yaml"))
	if err != nil || !strings.Contains(string(joined), "27.433") {
		t.Errorf("the joined scenario: %v\n%s", err, joined)
	}
	if _, err := os.Stat(filepath.Join(dir, "validate.json")); !os.IsNotExist(err) {
		t.Errorf("the validation of the scenario before is still there: %v", err)
	}
	put("validate.json", "")
	block(storeName) // which is seen before a step begins
	if code, out, stderr := gearshift(t, append(walk, "--from", "tune")...); code != 1 || out != "" || !strings.Contains(stderr, "it is not a regular file") {
		t.Errorf("exit code %d:\n%s%s", code, out, stderr)
	}
	remove(storeName)
	block("train.txt")
	code, out, stderr := gearshift(t, append(walk, "--from", "tune")...)
	if code != 1 || !strings.Contains(out, "3 validate: finished already") || !strings.Contains(out, "4 tune\n") || !strings.Contains(stderr, "cannot repeat train") {
		t.Errorf("exit code %d:\n%s%s", code, out, stderr)
	}
	remove("train.txt")
	interrupt("5 train\n")
	tuned, err := scenario.Load(filepath.Join(dir, "scenario.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	rules, advice := tuned.Evaluation.Rules, tuned.Training.Observation[0].Rule
	if len(rules) < 3 || !slices.Contains(rules, advice) || advice == "slackfit" {
		t.Errorf("the tuned rules are %q, and the advice %q", rules, advice)
	}
	put("input.yaml", input+"# other\n")
	fail(t, walk, "was begun with another scenario", "--from measure", "--from scenario")
	// What was measured holds for other tasks on the same engines.
	joins(append(walk, "--from", "scenario")...)
	if text, err := os.ReadFile(filepath.Join(dir, "input.yaml")); err != nil || string(text) != input {
		t.Errorf("the folder's scenario is not the new one: %v", err)
	}
}

// What is measured by turns takes the place of what was measured before, in the
// scenario that all steps after it go by.
func TestCalibrateGoesOnWithTheProfilesOfItsTurns(t *testing.T) {
	for turns, want := range map[int]string{0: "27.433", 3: "5.4321"} {
		dir := t.TempDir()
		put := into(t, dir)
		put("input.yaml", succeed(t, "scenario", "show", onHosts(t, listing(t, "small", "large"), "gpu0", "gpu0")))
		put("profile-small.yaml", strings.Replace(measuredLarge, "large", "small", 1))
		put("profile-large.yaml", measuredLarge)
		code, out, stderr := gearshift(t, "calibrate", "--scenario", filepath.Join(dir, "input.yaml"), "--dir", dir, "--preset", "quick", "--batches", "1,4", "--prompts", "16,64", "--turns", fmt.Sprint(turns))
		asked := strings.Contains(out, " --turns 3 --batches 1,4 --prompts 16,64 --out "+dir)
		if code != 1 || !strings.Contains(out, "3 validate") || asked != (turns > 0) {
			t.Errorf("--turns %d: exit code %d:\n%s%s", turns, code, out, stderr)
		}
		put("profile-large.yaml", strings.Replace(measuredLarge, "27.433", "5.4321", 1)) // as validate does at its end
		c := &calibration{calibrateOptions: calibrateOptions{dir: dir, turns: turns}, scenario: scenarioOf(t, "tiny")}
		if err := c.keepValidation(t.Context(), []byte("{}")); err != nil {
			t.Fatal(err)
		}
		measured, err := scenario.Load(c.at("measured.yaml"))
		if err != nil || fmt.Sprint(measured.Models[1].Weights) != want {
			t.Errorf("--turns %d: %v; large reads its weights in %v ms, want %s", turns, err, measured.Models[1].Weights, want)
		}
		if !c.finished(steps()[slices.Index(stepNames(), "validate")]) {
			t.Errorf("--turns %d: the step is not finished", turns)
		}
	}
}

// Each size is measured where it has neighbours, beside those of that host alone.
func TestCalibrateMeasuresBesideTheNeighbours(t *testing.T) {
	url := listing(t, "small", "large")
	for _, c := range []struct {
		small, large string
		want, not    string
	}{
		{"gpu1", "gpu0, gpu1", "--url " + url + "/gpu1 --model small ", "stands beside no other"},
		{"gpu1", "gpu0, gpu1", "--neighbour " + url + "/gpu1=large", "gpu0"},
		{"gpu1", "gpu0", "small stands beside no other variant: its contention is not measured", "--neighbour"},
	} {
		code, out, stderr := gearshift(t, "calibrate", "--scenario", onHosts(t, url, c.small, c.large), "--dir", filepath.Join(t.TempDir(), "walk"), "--preset", "quick")
		if code != 1 || !strings.Contains(out, c.want) || strings.Contains(out, c.not) {
			t.Errorf("small on %s, large on %s: exit code %d, want %q and no %q in\n%s%s", c.small, c.large, code, c.want, c.not, out, stderr)
		}
	}
}

// The turns of a repetition stay together: for the same policies and requests, for no
// others, as a walk may go on with other flags, and not where one is missing.
func TestTurnsOfARepetitionAreTakenTogether(t *testing.T) {
	asked := func() []turn {
		one := turn{Policy: calibrated, Repetition: 3, Workload: "u1", Seed: 1, Time: "2m0s"}
		other := one
		other.Policy = "slackfit"
		return []turn{one, other}
	}
	for what, change := range map[string]func([]turn){
		"nothing":          nil,
		"a missing turn":   func([]turn) {},
		"another policy":   func(t []turn) { t[1].Policy = "static:small" },
		"another workload": func(t []turn) { t[1].Workload = "u2" },
		"another seed":     func(t []turn) { t[1].Seed = 2 },
		"another time":     func(t []turn) { t[1].Time = "10m0s" },
	} {
		var said bytes.Buffer
		c := &calibration{calibrateOptions: calibrateOptions{dir: t.TempDir()}, stdout: &said, stderr: io.Discard} // with no scenario to serve
		turns := asked()
		if change != nil {
			change(turns)
		}
		for i, old := range asked() {
			old.Report = replay.Report{Requests: 7 + i}
			if i == 0 || what != "a missing turn" {
				if err := writeJSON(c.at(turnFile(2, i)), old); err != nil {
					t.Fatal(err)
				}
			}
		}
		err := c.stretch(t.Context(), 2, turns)
		if change == nil {
			if err != nil || turns[0].Report.Requests != 7 || turns[1].Report.Requests != 8 {
				t.Errorf("all taken: %v, %+v", err, turns)
			}
			continue
		}
		left, globErr := filepath.Glob(c.at("turn-*"))
		if err == nil || globErr != nil || len(left) != 0 || !strings.Contains(said.String(), "repetition 3 is not whole: all of its turns are taken anew") {
			t.Errorf("%s: %v, left are %v:\n%s", what, err, left, &said)
		}
	}
}

// A turn in which the machine was quicker or slower than in most of its repetition is taken
// again, whatever it came to, and as often as was asked. What no volley tells stands.
func TestTurnsAtAnotherPaceAreTakenAgain(t *testing.T) {
	for what, c := range map[string]struct {
		slow  [][]float64   // of the turns
		then  [][][]float64 // of each turn when it is taken again, in that order
		tries int
		want  []int // the turns taken again, in order
		off   []int // in the end
	}{
		"one pace":          {slow: [][]float64{{1, 1.1}, {1.05, 1}, {0.95, 1}}, tries: 3},
		"slow at its end":   {slow: [][]float64{{1, 1.5}, {1, 1}, {1, 1}}, then: [][][]float64{{{1, 1}}, nil, nil}, tries: 3, want: []int{0}},
		"quick, twice":      {slow: [][]float64{{1.5, 1.5}, {1, 1}, {1.4, 1.5}}, then: [][][]float64{nil, {{1.5, 1}, {1.5, 1.5}}, nil}, tries: 3, want: []int{1, 1}},
		"as often as asked": {slow: [][]float64{{1, 1}, {2, 2}, {1, 1}}, then: [][][]float64{nil, {{2, 2}, {2, 2}}, nil}, tries: 3, want: []int{1, 1}, off: []int{1}},
		"not asked":         {slow: [][]float64{{1, 1}, {2, 2}, {1, 1}}, tries: 1, off: []int{1}},
		"nothing told":      {slow: [][]float64{nil, {0, 0}, nil}, tries: 3},
	} {
		turns := make([]turn, len(c.slow))
		for i := range turns {
			turns[i].Slowness = c.slow[i]
		}
		var again []int
		w := &calibration{calibrateOptions: calibrateOptions{replayTries: c.tries}, stdout: io.Discard}
		err := w.level(turns, func(i int) error {
			again = append(again, i)
			turns[i].Slowness, c.then[i] = c.then[i][0], c.then[i][1:]
			return nil
		})
		if err != nil || !slices.Equal(again, c.want) || !slices.Equal(uneven(turns), c.off) {
			t.Errorf("%s: %v; taken again %v, want %v; uneven in the end %v, want %v", what, err, again, c.want, uneven(turns), c.off)
		}
	}
}

// Shares of sizes and errors are those of a turn's last try.
func TestAnotherTryLeavesNothingOfTheFirst(t *testing.T) {
	var taken turn
	for _, report := range []string{`{"share": {"small": 1}, "errors": {"timeout": 1}}`, `{"share": {"large": 1}, "errors": {}}`} {
		if err := taken.enter([]byte(report)); err != nil {
			t.Fatal(err)
		}
	}
	if r := taken.Report; len(r.Share) != 1 || r.Share["large"] != 1 || len(r.Errors) != 0 {
		t.Errorf("shares %v and errors %v, want those of the second try", r.Share, r.Errors)
	}
}

// A training goes on where its run has saved, not where a store is: one that was killed
// may have left no more in it than a further network's progress.
func TestCalibrateResumesWhatHasSaved(t *testing.T) {
	var said bytes.Buffer
	c := &calibration{calibrateOptions: calibrateOptions{dir: t.TempDir(), preset: "quick", seed: 1}, stdout: &said, stderr: io.Discard}
	if err := os.WriteFile(c.at("scenario.yaml"), []byte(succeed(t, "scenario", "show", "tiny")), 0o644); err != nil {
		t.Fatal(err)
	}
	store := &checkpoints.Store{Path: c.at(storeName)}
	if err := store.PutTraining(calibrated+"+2", nil, []byte("progress")); err != nil {
		t.Fatal(err)
	}
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	for _, resumes := range []bool{false, true} { // the second time there is what the first has saved
		said.Reset()
		if err := c.train(interrupted); !errors.Is(err, context.Canceled) || strings.Contains(said.String(), "--resume") != resumes {
			t.Errorf("%v; to be resumed: %v\n%s", err, resumes, &said)
		}
	}
}

// What the walk has trained goes with its step. What others keep in the same store, such
// as an alternative, stays.
func TestCalibrateForgetsItsOwnPolicyAlone(t *testing.T) {
	c := &calibration{calibrateOptions: calibrateOptions{dir: t.TempDir()}}
	forget := func() {
		t.Helper()
		if err := c.forget(steps()[slices.Index(stepNames(), "train")]); err != nil {
			t.Fatal(err)
		}
	}
	forget() // where there is no store yet
	store := &checkpoints.Store{Path: c.at(storeName)}
	made, _, err := (&checkpoints.Store{Path: storeOf(t, "tiny", "mine")}).Get(checkpoints.Ref{Name: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mine", calibrated} {
		if _, _, err := store.Put(name, made, time.Unix(0, 0)); err != nil {
			t.Fatal(err)
		}
		for _, run := range []string{name, name + "+2"} {
			if err := store.PutTraining(run, nil, []byte("progress")); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 { // the second time there is nothing to forget
		forget()
		if list, err := store.List(); err != nil || len(list) != 1 || list[0].Name != "mine" {
			t.Errorf("%v, %+v: want mine alone", err, list)
		}
		for run, stays := range map[string]bool{"mine": true, "mine+2": true, calibrated: false, calibrated + "+2": false} {
			if _, err := store.GetTraining(run); stays && err != nil || !stays && !errors.Is(err, checkpoints.ErrNotFound) {
				t.Errorf("progress of %s: %v, to stay: %v", run, err, stays)
			}
		}
	}
}

// Where the replay is repeated no turn of before stays, whatever number of repetitions
// took it: the policies have one name, and may be others.
func TestCalibrateForgetsEveryTurn(t *testing.T) {
	c := &calibration{calibrateOptions: calibrateOptions{dir: t.TempDir(), policies: []string{"slackfit"}, repetitions: 1}}
	for _, name := range []string{"turn-1-1.json", "turn-1-2.json", "turn-1-3.json", "turn-2-1.json", "replay.json", "eval.json"} {
		if err := os.WriteFile(c.at(name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.forget(steps()[slices.Index(stepNames(), "replay")]); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(c.at("*")); err != nil || !slices.Equal(left, []string{c.at("eval.json")}) {
		t.Errorf("left are %v, %v", left, err)
	}
}

// Stretches weigh by their requests, and what they differ by tells how sure the mean is.
func TestAheadByStretches(t *testing.T) {
	of := func(utility ...float64) (list []*replay.Report) {
		for k, u := range utility {
			list = append(list, &replay.Report{Requests: []int{100, 300}[k], Utility: u})
		}
		return list
	}
	mean, within := ahead(of(0.9, 0.8), of(0.7, 0.8))
	if math.Abs(mean-0.05) > 1e-9 || math.Abs(within-0.075) > 1e-9 {
		t.Errorf("ahead by %v ± %v", mean, within)
	}
	if mean, within = ahead(of(0.9, 0.8), of(0.8, 0.7)); math.Abs(mean-0.1) > 1e-9 || within > 1e-9 {
		t.Errorf("ahead by %v ± %v everywhere", mean, within)
	}
}

// Engines that do not answer, or have other models, are said before anything is measured
// and before there is a folder; where only steps without engines are left, they are not asked.
func TestCalibrateAsksTheEnginesFirst(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "walk")
	walk := func(file string, flags ...string) []string {
		return append([]string{"calibrate", "--scenario", file, "--dir", dir, "--preset", "quick"}, flags...)
	}
	fail(t, walk(onHosts(t, listing(t, "small", "big"), "gpu0", "gpu0")), "replica large@gpu0: cannot measure", `it has no model "large"; it has small, big`)
	code, out, stderr := gearshift(t, walk(onHosts(t, "http://127.0.0.1:1", "gpu0", "gpu0"))...)
	if code != 1 || out != "" || strings.Count(stderr, "cannot reach http://127.0.0.1:1/gpu0") != 1 {
		t.Errorf("exit code %d: %s%s", code, out, stderr)
	}
	file := onHosts(t, "http://127.0.0.1:1", "gpu0", "gpu0")
	keyed := write(t, "keyed.yaml", strings.ReplaceAll(succeed(t, "scenario", "show", file), "/gpu0'}", "/gpu0', api_key_env: NO_SUCH_KEY}"))
	fail(t, walk(keyed), "NO_SUCH_KEY", "empty")
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("a refused walk left a folder: %v", err)
	}
	c := &calibration{calibrateOptions: calibrateOptions{dir: t.TempDir(), policies: []string{"slackfit"}, repetitions: 1}, scenario: scenarioOf(t, file)}
	for _, s := range steps() {
		if !c.asksEngines() {
			t.Errorf("the engines are not asked before %s", s.name)
		}
		for _, name := range s.outputs(c) {
			if err := os.WriteFile(c.at(name), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if c.asksEngines() {
		t.Error("the engines are asked where all is done")
	}
}

// The end of a walk holds the policy against the alternative that earned most.
func TestTheEndOfACalibration(t *testing.T) {
	policies := []string{calibrated, "static:small", "slackfit:0.9"}
	turnsOf := func(utility ...[]float64) (turns []turn) {
		for k, stretch := range utility {
			for i, u := range stretch {
				turns = append(turns, turn{Policy: policies[i], Repetition: k + 1, Report: replay.Report{Requests: 100, Utility: u}})
			}
		}
		return turns
	}
	for want, turns := range map[string][]turn{
		"on the engines: calibrated over the best alternative, slackfit:0.9, by +0.0500 in one repetition, which may be chance: want --repetitions 3 or more": turnsOf(
			[]float64{0.9, 0.7, 0.85}),
		"on the engines: calibrated over the best alternative, slackfit:0.9, by +0.0500 ± 0.0000, paired over 2 repetitions: better": turnsOf(
			[]float64{0.9, 0.7, 0.85}, []float64{0.8, 0.6, 0.75}),
		"on the engines: calibrated over the best alternative, slackfit:0.9, by +0.0500 ± 0.0500, paired over 2 repetitions: level": turnsOf(
			[]float64{0.9, 0.7, 0.8}, []float64{0.8, 0.6, 0.8}),
		"on the engines: calibrated over the best alternative, static:small, by -0.1000 ± 0.0000, paired over 2 repetitions: worse": turnsOf(
			[]float64{0.8, 0.9, 0.7}, []float64{0.7, 0.8, 0.6}),
	} {
		if got := onEngines(policies, turns); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// listing is a server that lists the models, below any path, and answers nothing else.
func listing(t *testing.T, models ...string) (url string) {
	t.Helper()
	list := `{"data":[{"id":"` + strings.Join(models, `"},{"id":"`) + `"}]}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/v1/models") {
			http.Error(w, "{}", http.StatusNotImplemented)
			return
		}
		fmt.Fprint(w, list)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// onHosts is tiny with its sizes on hosts of their own choice, served by upstreams below
// the URL.
func onHosts(t *testing.T, url, small, large string) string {
	t.Helper()
	text := succeed(t, "scenario", "show", "tiny")
	upstreams := "  backend: upstream\n  upstreams:\n"
	for variant, on := range map[string]string{"small": small, "large": large} {
		for _, host := range strings.Split(on, ", ") {
			upstreams += fmt.Sprintf("    %s@%s: {url: '%s/%s'}\n", variant, host, url, host)
		}
	}
	for _, edit := range [][2]string{
		{"  - {name: gpu0, memory: 8GiB}\n", "  - {name: gpu0, memory: 8GiB}\n  - {name: gpu1, memory: 8GiB}\n"},
		{"{variant: small, hosts: [gpu0]", "{variant: small, hosts: [" + small + "]"},
		{"{variant: large, hosts: [gpu0]", "{variant: large, hosts: [" + large + "]"},
		{"  backend: simulated", strings.TrimRight(upstreams, "\n") + " #"},
	} {
		if !strings.Contains(text, edit[0]) {
			t.Fatalf("tiny has no %q", edit[0])
		}
		text = strings.Replace(text, edit[0], edit[1], 1)
	}
	return write(t, "hosts.yaml", text)
}
