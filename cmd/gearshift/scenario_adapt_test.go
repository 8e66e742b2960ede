package main

import (
	"strings"
	"testing"

	"gearshift/internal/scenario"
)

const measuredLarge = `profiles:
  - variant: large
    launch_floor_ms: 0 # 90 %: 0 to 27.9
    weights_ms: 27.433
    growth_per_sequence: 0.003
    token_ms: 0.19863
    context_token_ms: 0.0020036
    overhead_ms: 1.5575
    sequence_ms: 0.1995
    contention: 0.11462
    weight_bytes: 0
    activation_bytes: 0
    kv_bytes_per_token: 0
measured: {date: "2026-11-22"}
`

// The figures go in, memory that was not measured stays, and the rest is untouched.
func TestScenarioProfiles(t *testing.T) {
	out := succeed(t, "scenario", "profiles", "tiny", "--from", write(t, "large.yaml", measuredLarge))
	s, err := scenario.Load(write(t, "measured.yaml", out))
	if err != nil {
		t.Fatal(err)
	}
	before, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	large := s.Models[1]
	if large.Weights != 27.433 || large.Contention != 0.11462 || large.KVBytes != before.Models[1].KVBytes || s.Models[0].Profile != before.Models[0].Profile {
		t.Errorf("profiles %+v", s.Models)
	}
	if !strings.Contains(out, "# How each replica batches") {
		t.Errorf("comments are lost:\n%s", out)
	}
}

// What a new measurement did not find does not stay from an older one.
func TestScenarioProfilesReplacesWhatMayBeLeftOut(t *testing.T) {
	extra := "    contention: 0.11462\n    prompt_ms: 0.7\n    request_ms: 2\n    crowding: 0.4\n"
	older := strings.Replace(measuredLarge, "    contention: 0.11462\n", extra, 1)
	before := write(t, "older.yaml", succeed(t, "scenario", "profiles", "tiny", "--from", write(t, "large.yaml", older)))
	if s, err := scenario.Load(before); err != nil || s.Models[1].Prompt != 0.7 || s.Models[1].Request != 2 || s.Models[1].Crowding != 0.4 {
		t.Fatalf("%+v, %v", s, err)
	}
	out := succeed(t, "scenario", "profiles", before, "--from", write(t, "large.yaml", measuredLarge))
	s, err := scenario.Load(write(t, "measured.yaml", out))
	if err != nil || s.Models[1].Prompt != 0 || s.Models[1].Request != 0 || s.Models[1].Crowding != 0 {
		t.Errorf("prompt_ms %v, request_ms %v, crowding %v, %v; want none", s.Models[1].Prompt, s.Models[1].Request, s.Models[1].Crowding, err)
	}
}

func TestScenarioProfilesRefuses(t *testing.T) {
	from := func(text string) []string {
		return []string{"scenario", "profiles", "tiny", "--from", write(t, "p.yaml", text)}
	}
	fail(t, []string{"scenario", "profiles", "tiny"}, "--from FILE is missing")
	fail(t, []string{"scenario", "profiles", "tiny", "--from", "none.yaml"}, "cannot read the profile", "none.yaml")
	fail(t, from("a: 1"), "no profiles")
	fail(t, from("- 1"), "not a profile")
	fail(t, from(strings.Replace(measuredLarge, "large", "huge", 1)), `variant "huge"; there are small, large`)
	fail(t, from(strings.Replace(measuredLarge, "27.433", "-1", 1)), "weights_ms")
	fail(t, from(strings.Replace(measuredLarge, "27.433", "fast", 1)), "not a profile")
}
