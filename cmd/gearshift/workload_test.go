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
	const drawn = "drawn from the scenario; +lengths takes the trace's"
	if strings.Contains(out, drawn) {
		t.Errorf("%s\nits lengths are the trace's", out)
	}
	if out := succeed(t, "workload", "stat", "trace:azure-code", "--scenario", "titan-rtx-opt"); !strings.Contains(out, drawn) {
		t.Errorf("%s\nwant %s", out, drawn)
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

// Traces as their users have them: a request that failed, numbers written by pandas, and the public forms of
// BurstGPT and Mooncake.
func TestWorkloadReadsTracesAsUsersHaveThem(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, skipped, stat string }{
		"burst.csv":      {"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,A,72,18,90,Conversation log\n45,B,17,0,17,API log\n", "1 of 2 requests have no prompt", "requests             1 in"},
		"floats.csv":     {",TIMESTAMP,ContextTokens,GeneratedTokens\n0,2023-11-16 18:17:03.97,48.0,10.0\n", "", "mean prompt, output  48.0, 10.0 tokens"},
		"zero.csv":       {"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,48,10\n2023-11-16 18:17:04.03,110,0\n", "zero.csv: 1 of 2 requests have no prompt or no output tokens and are left out; +zero keeps them with 1 token", "mean prompt, output  48.0, 10.0 tokens"},
		"mooncake.jsonl": {`{"timestamp": 0, "input_length": 67, "output_length": 50, "hash_ids": [0]}` + "\n" + `{"timestamp": 3000, "input_length": 73, "output_length": 49, "hash_ids": [0, 1]}` + "\n", "", "requests             2 in 3.0 s"},
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, notes := gearshift(t, "workload", "stat", "trace:"+file+"+lengths", "--scenario", "tiny")
		if code != 0 || !strings.Contains(out, c.stat) || !strings.Contains(notes, c.skipped) || (c.skipped == "") != (notes == "") {
			t.Errorf("%s: code %d, %s%s; want %q, %q", name, code, out, notes, c.stat, c.skipped)
		}
	}
	out := succeed(t, "workload", "stat", "trace:"+filepath.Join(dir, "zero.csv")+"+lengths+zero", "--scenario", "tiny")
	if !strings.Contains(out, "requests             2 in 0.1 s") {
		t.Errorf("kept: %s", out)
	}
}

// Of a trace no more is read than the requests that are asked for.
func TestWorkloadStopsAtItsRequests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.csv")
	if err := os.WriteFile(file, []byte("arrived_at,num_prefill_tokens,num_decode_tokens\n0,1,1\n1,1,1\nnonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"stat", "gen"} {
		succeed(t, "workload", command, "trace:"+file, "--scenario", "tiny", "--requests", "2")
		if code, _, notes := gearshift(t, "workload", command, "trace:"+file, "--scenario", "tiny", "--requests", "3"); code == 0 || !strings.Contains(notes, "t.csv:4: 1 columns; 3 would be right") {
			t.Errorf("%s of all: code %d, %s", command, code, notes)
		}
	}
}
