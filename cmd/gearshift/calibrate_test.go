//go:build !serveonly

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gearshift/internal/scenario"
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
	if strings.Count(out, "finished already") != 8 || !strings.Contains(out, "5 train: finished already; --from train repeats it") {
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
	block("policies.db") // which is seen before a step begins
	if code, out, stderr := gearshift(t, append(walk, "--from", "tune")...); code != 1 || out != "" || !strings.Contains(stderr, "it is not a regular file") {
		t.Errorf("exit code %d:\n%s%s", code, out, stderr)
	}
	remove("policies.db")
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

// With --turns the validation measures, with the walk's batches and prompts and into its folder.
func TestCalibrateValidatesByTurns(t *testing.T) {
	for _, turns := range []int{0, 3} {
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
	}
}

// Each size is measured where it has neighbours, beside those of that host alone.
func TestCalibrateMeasuresBesideTheNeighbours(t *testing.T) {
	url := listing(t, "small", "large")
	for _, c := range []struct {
		small, large string
		want, not    string
	}{
		{"gpu1", "gpu0, gpu1", "--url " + url + "/gpu1 --model small ", "shares its host with no other"},
		{"gpu1", "gpu0, gpu1", "--neighbour " + url + "/gpu1=large", "gpu0"},
		{"gpu1", "gpu0", "small shares its host with no other variant: its contention is not measured", "--neighbour"},
	} {
		code, out, stderr := gearshift(t, "calibrate", "--scenario", onHosts(t, url, c.small, c.large), "--dir", filepath.Join(t.TempDir(), "walk"), "--preset", "quick")
		if code != 1 || !strings.Contains(out, c.want) || strings.Contains(out, c.not) {
			t.Errorf("small on %s, large on %s: exit code %d, want %q and no %q in\n%s%s", c.small, c.large, code, c.want, c.not, out, stderr)
		}
	}
}

// Engines that do not answer, or have other models, are said before anything is measured
// and before there is a folder.
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
