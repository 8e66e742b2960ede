//go:build !serveonly

package main

import (
	"math/rand/v2"
	"testing"

	"gearshift/internal/scenario"
	"gearshift/internal/training"
	"gearshift/rl"
	"gearshift/rl/dqn"
	"gearshift/workloads"
)

// routed takes scripted actions in place of the learner's, so that what is
// measured plays the same requests on the same sizes whatever has been learnt.
type routed struct {
	*training.Environment
	routes script
}

func (r *routed) Step(int) rl.Step { return r.Environment.Step(int(r.routes.uniform() * 3)) }

// BenchmarkTraining is rl.Train with one gradient step for each decision, past
// the warm-up: on the environment that scripts/peers ports, and, with all that its
// observation holds, as the preset default does it but for how often it learns.
// The peer measures 200 decisions of the first and 1,000 of the second.
//
//	go test -run '^$' -bench Training/9-256 -benchtime 200x ./cmd/gearshift [-tags openblas]
//	go test -run '^$' -bench Training/9-64 -benchtime 1000x ./cmd/gearshift [-tags openblas]
func BenchmarkTraining(b *testing.B) {
	s, err := scenario.Load("titan-rtx-opt")
	if err != nil {
		b.Fatal(err)
	}
	plain := func(preset string) (rl.Config, rl.Env) {
		c := s.Training.Presets[preset].Config
		c.AdviceMargin, c.Discount = 0, rl.Discount{TimeConstant: 15}
		c.TargetSync, c.TargetRate = 0, 0.002
		config, spec := scriptedSimulation(b, -1)
		e, err := training.NewEnvironmentOn(s, spec, config, 0)
		if err != nil {
			b.Fatal(err)
		}
		return c, &routed{e, script(2)}
	}
	for _, cores := range []string{"", "two-cores/"} { // which -cpu gives
		b.Run(cores+"9-256-256-3/batch=1024", func(b *testing.B) {
			c, e := plain("paper")
			trainEachDecision(b, c, e, 9)
		})
	}
	b.Run("9-64-64-dueling-3/batch=256", func(b *testing.B) {
		c, e := plain("default")
		trainEachDecision(b, c, e, 9)
	})
	b.Run("default", func(b *testing.B) {
		preset := s.Training.Presets["default"]
		spec := s.Trained(preset).Spec()
		e, err := training.NewEnvironment(s.Trained(preset), spec, &preset.Config)
		if err != nil {
			b.Fatal(err)
		}
		trainEachDecision(b, preset.Config, e, spec.Dim())
	})
}

// trainEachDecision times the decisions after the warm-up.
func trainEachDecision(b *testing.B, c rl.Config, e rl.Env, inputs int) {
	const warmup = 2000
	c.Warmup, c.TrainEvery, c.Replay = warmup, 1, 100_000
	c.Epsilon = rl.Epsilon{Start: 0.02, End: 0.02}
	c.Decisions, c.CheckpointEvery = warmup+b.N, warmup+b.N
	l, err := dqn.New(c, inputs, 3, rand.New(rl.Weights.PCG(1)))
	if err != nil {
		b.Fatal(err)
	}
	run := rl.Run{
		Config: c, Seed: 1, Envs: []rl.Env{e}, Learner: l,
		EpisodeSeed: func(episode uint64) uint64 { return workloads.Seed(workloads.Training, 3+episode) },
		ReportEvery: warmup,
		Report: func(r rl.Report) {
			switch r.Decisions {
			case warmup:
				b.ResetTimer()
			case warmup + b.N:
				b.StopTimer()
			}
		},
	}
	if _, err := rl.Train(b.Context(), run, nil); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
}
