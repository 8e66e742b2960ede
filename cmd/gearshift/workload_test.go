package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// So many requests at most are those of any workload, of one that ends by time too.
func TestWorkloadTakesSoManyRequests(t *testing.T) {
	for _, w := range []string{"stable:20", "schedule:20x9", "u1", "trace:arena"} {
		out := succeed(t, "workload", "gen", w, "--scenario", "tiny", "--requests", "7")
		if n := strings.Count(out, "\n"); n != 7 {
			t.Errorf("%s: %d requests, want 7", w, n)
		}
	}
	for w, least := range map[string]int{"stable:20": 400, "schedule:0x60,50x60": 2500} {
		if out := succeed(t, "workload", "gen", w, "--scenario", "tiny"); strings.Count(out, "\n") < least {
			t.Errorf("%s: %d requests in all of its time, want some %d", w, strings.Count(out, "\n"), least)
		}
	}
}

// What a stretch is too short to tell is not given as nothing.
func TestDispersionOfAShortStretch(t *testing.T) {
	out := succeed(t, "workload", "stat", "schedule:5x12", "--scenario", "tiny")
	if want := "dispersion in 10 s   unknown, of less than two windows"; !strings.Contains(out, want) || strings.Contains(out, "in 1 s    unknown") {
		t.Errorf("%s\nwant %s, and that in 1 s", out, want)
	}
}

// A trace's own lengths are cut where they fit no replica, and nowhere else.
func TestTraceLengthsThatFitStay(t *testing.T) {
	out := succeed(t, "workload", "stat", "trace:azure-code+lengths", "--scenario", "titan-rtx-opt")
	if want := "mean prompt, output  2047.8, 27.9 tokens"; !strings.Contains(out, want) {
		t.Errorf("%s\nwant %s, as in the file", out, want)
	}
}

// Outputs that fit beside some prompts alone are refused before anything is simulated.
func TestOutputsFitBesideTheLongestPrompt(t *testing.T) {
	text := succeed(t, "scenario", "show", "titan-rtx-opt")
	long := strings.Replace(text, "prompt_tokens: {distribution: uniform, min: 45, max: 134}", "prompt_tokens: {distribution: uniform, min: 45, max: 8000}", 1)
	long = strings.Replace(long, "max_batch_tokens: 2560", "max_batch_tokens: 8000", 1)
	if long == text {
		t.Fatal("the scenario has other prompts")
	}
	fail(t, []string{"eval", "--scenario", write(t, "long.yaml", long), "--workload", "u1+outputs:constant,4000", "--seeds", "1", "--requests", "50"},
		"outputs of up to 4000 tokens; at most 2528 are sure to fit")
}

// What takes long with large numbers ends where it is interrupted, and leaves files as
// they were.
func TestInterruptedCommandsEnd(t *testing.T) {
	out := write(t, "trace.jsonl", "as before\n")
	dir := t.TempDir()
	for _, args := range [][]string{
		{"workload", "gen", "poisson:5", "--scenario", "tiny", "--out", out},
		{"workload", "gen", "poisson:5", "--scenario", "tiny"},
		{"workload", "stat", "poisson:5", "--scenario", "tiny"},
		{"bound", "--fluid", "--workload", "poisson:5", "--scenario", "tiny"},
		{"models", "make", "--out", dir, "--size", "a=1x8"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var stdout, stderr strings.Builder
		if code := run(ctx, args, &stdout, &stderr); code != 130 || stdout.String() != "" || stderr.String() != "gearshift: interrupted\n" {
			t.Errorf("gearshift %s: exit code %d, %q, %q", strings.Join(args, " "), code, stdout.String(), stderr.String())
		}
	}
	if text, err := os.ReadFile(out); err != nil || string(text) != "as before\n" {
		t.Errorf("%v: %s", err, text)
	}
	for _, folder := range []string{dir, filepath.Dir(out)} {
		if left, err := os.ReadDir(folder); err != nil || len(left) > 1 || folder == dir && len(left) > 0 {
			t.Errorf("%v: %s holds %v", err, folder, left)
		}
	}
}
