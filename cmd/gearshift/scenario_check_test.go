package main

import (
	"strings"
	"testing"
)

// The table has what each size does in time, once for hosts where it does the same.
func TestCheckShowsWhatEachSizeDoes(t *testing.T) {
	out := succeed(t, "scenario", "check", "titan-rtx-opt")
	for _, want := range []string{
		"titan-rtx-opt is a valid scenario: 4 tasks, 3 variants, 4 hosts", "a deadline of 40 ms per token (hellaswag, copa, piqa, openbookqa)",
		"ms/token alone", "largest batch", "requests/s", "KV tokens", "opt-1.3b@gpu0,gpu1,gpu2,gpu3", "11296",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	// A host of its own memory has a line of its own, and each deadline a table.
	mixed := edited(t, "tiny", "- {name: gpu0, memory: 8GiB}", "- {name: gpu0, memory: 8GiB}\n  - {name: gpu1, memory: 16GiB}")
	if out := succeed(t, "scenario", "check", mixed); strings.Count(out, "large@gpu") != 1 {
		t.Errorf("%s", out)
	}
	two := edited(t, "tiny", "search, deadline_ms: 40", "search, deadline_ms: 20")
	if out := succeed(t, "scenario", "check", two); strings.Count(out, "ms/token alone") != 2 || !strings.Contains(out, "none") || strings.Index(out, "20 ms") > strings.Index(out, "40 ms") {
		t.Errorf("%s", out)
	}
	// What policies are for is said, where it is not mean utility.
	aimed := edited(t, "tiny", "\ntraining:\n", "\ntraining:\n  objective: {power: 8}\n")
	if out := succeed(t, "scenario", "check", aimed); !strings.Contains(out, "Policies are trained and judged, and rules tuned, for power:8.\n") {
		t.Errorf("%s", out)
	}
	// What the fleet does late is not called in time.
	late := write(t, "late.yaml", strings.ReplaceAll(succeed(t, "scenario", "show", "tiny"), "deadline_ms: 40", "deadline_ms: 1"))
	if out := succeed(t, "scenario", "check", late); !strings.Contains(out, "No size answers in time. Late, the fleet") || strings.Contains(out, "answers most") {
		t.Errorf("%s", out)
	}
}

// Answers without tokens have a time of their own, no KV cache, and rates in full.
func TestCheckShowsAnswersWithoutTokens(t *testing.T) {
	times, qualities := map[string][]float64{}, map[string]float64{}
	for _, o := range simulatedDigits {
		qualities[o.variant], times[o.variant] = o.quality, o.times
	}
	times["digits-image"] = []float64{1, 1.25, 1.5, 2, 2.5}
	text := digitsScenario(qualities, times)
	out := succeed(t, "scenario", "check", write(t, "digits.yaml", text))
	for _, want := range []string{
		"\nIn time, with a deadline of 1000 ms for the answer (digits):\n", "ms alone  largest batch  ms then, with the wait  requests/s\n",
		"digits-image@cpu0             1.0             16                     5.0        6400\n", "answers about 6400 requests per second",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	for _, odd := range []string{"token", "KV", "e+0"} {
		if strings.Contains(out, odd) {
			t.Errorf("%q in:\n%s", odd, out)
		}
	}
	// The same of a task of its own, next to one whose answers have tokens.
	two := strings.Replace(succeed(t, "scenario", "show", "tiny"), "\n  output_tokens:", "\n  task_lengths: {search: {output_tokens: {distribution: none}}}\n  output_tokens:", 1)
	if out := succeed(t, "scenario", "check", write(t, "two.yaml", two)); !strings.Contains(out, "40 ms per token (chat)") || !strings.Contains(out, "40 ms for the answer (search)") {
		t.Errorf("%s", out)
	}
}

// Warnings leave the exit code at 0, unless they are asked to be errors.
func TestCheckWarns(t *testing.T) {
	odd := edited(t, "tiny", "large: 1.00}}\n  - {name: search", "large: 95}}\n  - {name: search")
	code, stdout, stderr := gearshift(t, "scenario", "check", odd)
	if code != 0 || !strings.Contains(stdout, "is a valid scenario") || !strings.Contains(stderr, "1 warning") || !strings.Contains(stderr, "edited.yaml:11: tasks[0].quality.large: 95 is a quality") {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
	fail(t, []string{"scenario", "check", odd, "--strict"}, "edited.yaml:11: tasks[0].quality.large")
	if code, _, stderr := gearshift(t, "scenario", "check", "tiny", "--strict"); code != 0 || stderr != "" {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	fail(t, []string{"scenario", "check", "tiny", "--strict", "--workload", "poisson:2000"}, "2000 requests per second", "the fleet answers 79.2")
	trace := write(t, "busy.csv", "req_time_s,client,prompt_len,output_len\n0.0,1,10,20\n0.0005,1,10,20\n0.001,1,10,20\n")
	fail(t, []string{"scenario", "check", "tiny", "--strict", "--workload", "trace:" + trace}, "busy.csv@40")
	fail(t, []string{"scenario", "check", "tiny", "--workload", "u9"}, "u9")
}
