package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"gearshift/internal/calibrate/enginetest"
	"gearshift/internal/calibrate/loadgen"
)

// What replay needs is checked before anything is sent, with the trace first; it ends in a
// verdict and a command that eval takes.
func TestReplayChecksAndConcludes(t *testing.T) {
	trace := write(t, "trace.jsonl", `{"at_s":0,"prompt_tokens":3,"output_tokens":2}`+"\n"+`{"at_s":0.05,"prompt_tokens":3,"output_tokens":2}`+"\n")
	s := serveTiny(t, "--policy", "static:small")
	to := func(args ...string) []string {
		return append([]string{"replay", "--scenario", "tiny", "--url", s.url, "--trace", trace}, args...)
	}
	fail(t, []string{"replay", "--scenario", "tiny", "--url", "http://127.0.0.1:1", "--trace", "nowhere.jsonl"}, "nowhere.jsonl")
	fail(t, []string{"replay", "--scenario", "tiny", "--url", "http://127.0.0.1:1", "--trace", trace}, "cannot reach http://127.0.0.1:1")
	fail(t, to("--model", "huge"), `it has no model "huge"; it has auto, small, large`)
	fail(t, to("--scenario", "titan-rtx-opt"), "it has no task", "give the scenario that it serves")
	broken := write(t, "broken.jsonl", `{"at_s":0,"prompt_tokens":3,"output_tokens":2}`+"\n"+`{"at_s":"x"}`+"\n")
	fail(t, to("--trace", broken), "broken.jsonl:2")
	if strings.Contains(s.log.String(), "chat/completions") {
		t.Errorf("a refused replay sent requests: %s", s.log)
	}

	out := succeed(t, to("--lengths")...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	verdict, next := lines[len(lines)-2], lines[len(lines)-1]
	if verdict != "it keeps up: 100.0 % of 2 requests were answered in time, for a utility of 0.700 each" &&
		!strings.Contains(verdict, "of 2 requests were answered in time") {
		t.Errorf("the verdict is %q in\n%s", verdict, out)
	}
	want := fmt.Sprintf("simulate the same: gearshift eval --scenario tiny --policy static:small --workload trace:%s+lengths", trace)
	if next != want {
		t.Errorf("the next command is %q, want %q", next, want)
	}
	succeed(t, append(strings.Fields(strings.TrimPrefix(next, "simulate the same: gearshift ")), "--seeds", "1")...)

	code, out, stderr := gearshift(t, to("--format", "json")...)
	var report loadgen.ReplayReport
	if err := json.Unmarshal([]byte(out), &report); code != 0 || err != nil || report.Completed != 2 || !strings.Contains(stderr, "of 2 requests were answered in time") {
		t.Errorf("exit code %d, %v: %s%s", code, err, out, stderr)
	}
	s.end(t)
}

// For a stored policy the command that simulates the same names the store; without the store
// that has it, replay asks for that instead.
func TestReplayNamesTheStore(t *testing.T) {
	trace := write(t, "trace.jsonl", `{"at_s":0,"prompt_tokens":3,"output_tokens":2}`+"\n"+`{"at_s":0.05,"prompt_tokens":3,"output_tokens":2}`+"\n")
	store := enginetest.Store(t, "tiny", "mine")
	s := serveTiny(t, "--policy", "mine", "--store", store)
	replay := func(store string) string {
		out := succeed(t, "replay", "--scenario", "tiny", "--url", s.url, "--trace", trace, "--store", store)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		return lines[len(lines)-1]
	}
	next, ok := strings.CutPrefix(replay(store), "simulate the same: gearshift ")
	if !ok || !strings.Contains(next, "--policy mine@1") {
		t.Fatalf("the next command is %q", next)
	}
	succeed(t, append(strings.Fields(next), "--seeds", "1")...)
	elsewhere := storePath(t)
	want := "to simulate the same, give the store that has mine@1 as --store: no checkpoint store at " + elsewhere
	if got := replay(elsewhere); !strings.HasPrefix(got, want) {
		t.Errorf("without the store: %q, want %q", got, want)
	}
	s.end(t)
}
