package main

import (
	"strings"
	"testing"

	"gearshift/cmd/gearshift/scenario"
	"gearshift/env"
	"gearshift/env/engine"
	"gearshift/env/envtest"
	"gearshift/workloads"
)

// The built-in scenarios keep the environment's contract under every workload
// that they are judged by, with the simulator's invariants checked at each event.
func TestBuiltInScenariosKeepTheContract(t *testing.T) {
	for _, name := range workloads.ScenarioNames() {
		for _, scheduler := range []string{engine.PrefillFirst, engine.ChunkedPrefill} {
			s, err := scenario.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			config, err := simulation(s)
			if err != nil {
				t.Fatal(err)
			}
			maker, err := ruleMaker(s, config.Table)
			if err != nil {
				t.Fatal(err)
			}
			if config.Encoder, err = maker.Encoder(s.Spec()); err != nil {
				t.Fatal(err)
			}
			config.Check, config.Engine.Scheduler = true, scheduler
			list, err := evaluated(s, []string{"u1", "u2", "stable:2"}, 150)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range list {
				config.Open, config.KnownRate = w.Open, w.KnownRate
				e, err := env.New(config)
				if err != nil {
					t.Fatal(err)
				}
				if err := envtest.Check(e, workloads.Seed(workloads.Validation, 1), 2000); err != nil {
					t.Errorf("%s, %s, %s: %v", name, scheduler, w.Name, err)
				}
			}
		}
	}
}

// A trace's own lengths are cut where they fit no replica, and nowhere else.
func TestTraceLengthsThatFitStay(t *testing.T) {
	out := succeed(t, "workload", "stat", "trace:azure-code+lengths", "--scenario", "titan-rtx-opt")
	if want := "mean prompt, output  2047.8, 27.9 tokens"; !strings.Contains(out, want) {
		t.Errorf("%s\nwant %s, as in the file", out, want)
	}
}

// Requests have to fit every replica, as placed and alone on its host.
func TestSmallestCache(t *testing.T) {
	text := succeed(t, "scenario", "show", "tiny")
	placed, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Load(write(t, "alone.yaml", strings.Replace(text, "static_memory: 90%", "static_memory: 75%", 1)))
	if err != nil {
		t.Fatal(err)
	}
	large, err := s.Alone("large")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := settings(s, 1).Fits, large.KVTokens()[0]; got != want || want >= settings(placed, 1).Fits {
		t.Errorf("%d tokens fit, want the %d of the large size alone, with less than its share beside the small one", got, want)
	}
	if got, want := settings(placed, 1).Fits, placed.KVTokens()[1]; got != want {
		t.Errorf("%d tokens fit, want %d", got, want)
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
