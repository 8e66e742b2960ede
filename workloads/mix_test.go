package workloads

import (
	"math"
	"strings"
	"testing"

	"gearshift/router/fleet"
)

var fourTasks = []fleet.Task{{Name: "hellaswag"}, {Name: "copa"}, {Name: "piqa"}, {Name: "openbookqa"}}

func TestMix(t *testing.T) {
	cases := map[string]struct {
		mix  Mix
		want []float64
	}{
		"empty":        {nil, []float64{.25, .25, .25, .25}},
		"alike":        {Mix{"hellaswag": 2, "copa": 2, "piqa": 2, "openbookqa": 2}, []float64{.25, .25, .25, .25}},
		"weighted":     {Mix{"hellaswag": 1, "copa": 6, "piqa": 0.5, "openbookqa": 2.5}, []float64{.1, .6, .05, .25}},
		"one alone":    {Mix{"piqa": 3}, []float64{0, 0, 1, 0}},
		"last without": {Mix{"copa": 1, "openbookqa": 0, "piqa": 1}, []float64{0, .5, .5, 0}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if err := c.mix.Validate(fourTasks); err != nil {
				t.Fatal(err)
			}
			const n = 200_000
			counts := make([]float64, len(fourTasks))
			chooser, rng := c.mix.chooser(fourTasks), source(1, taskPart)
			for range n {
				counts[chooser.choose(rng)]++
			}
			for i, share := range c.mix.Shares(fourTasks) {
				near(t, "own share", share, c.want[i], 1e-12)
				near(t, "share", counts[i]/n, c.want[i], 0.02)
			}
		})
	}
}

func TestMixFaults(t *testing.T) {
	for want, mix := range map[string]Mix{
		"qa: is not a task of this fleet; one of hellaswag, copa, piqa, openbookqa would be right": {"qa": 1, "copa": 1},
		"copa: -1 is not a weight":                 {"copa": -1, "piqa": 2},
		"copa: NaN is not a weight":                {"copa": math.NaN()},
		"copa: +Inf is not a weight":               {"copa": math.Inf(1)},
		"copa: the weights sum to 0; at least one": {"copa": 0, "piqa": 0},
	} {
		if err := mix.Validate(fourTasks); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v; want %q", mix, err, want)
		}
	}
}

// All faults of a shape are named at once, each under its section's key.
func TestShapeFaults(t *testing.T) {
	shape := Shape{
		Mix:    Mix{"qa": 1, "copa": -2},
		Prompt: Lengths{Distribution: "uniform", Min: 0, Max: -3},
		Output: Lengths{Distribution: "poisson"},
	}
	_, err := New(U1{}, fourTasks, shape, 1, Limit{})
	if err == nil {
		t.Fatal("the shape is accepted")
	}
	for _, want := range []string{"task_mix.qa: ", "task_mix.copa: ", "prompt_tokens.min: ", "prompt_tokens.max: ", "output_tokens.distribution: "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not name %q", err, want)
		}
	}
	if _, err := New(U1{}, nil, tokens, 1, Limit{}); err == nil {
		t.Error("no tasks are accepted")
	}
}

func TestLoadFaults(t *testing.T) {
	good := Load{MinRate: 0.25, MaxRate: 48, UniformShare: 0.3, MinPhase: 10, MaxPhase: 60}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Load){
		"min_rate: rate 0 is outside":                  func(l *Load) { l.MinRate = 0 },
		"max_rate: 0.1 is below min_rate, 0.25":        func(l *Load) { l.MaxRate = 0.1 },
		"uniform_share: 30 is not a share":             func(l *Load) { l.UniformShare = 30 },
		"min_phase_s: 0 is not a number of seconds":    func(l *Load) { l.MinPhase = 0 },
		"min_phase_s: 1e-10 is not a number":           func(l *Load) { l.MinPhase, l.MaxPhase, l.MinPhaseRequests = 1e-10, 1e-10, 1e-9 },
		"known_share: -1 is not a share":               func(l *Load) { l.KnownShare = -1 },
		"max_phase_s: 5 is not a number of seconds":    func(l *Load) { l.MaxPhase = 5 },
		"max_phase_s: +Inf is not a number of seconds": func(l *Load) { l.MaxPhase = math.Inf(1) },
	} {
		load := good
		change(&load)
		if err := load.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want %q", err, want)
		}
	}
}
