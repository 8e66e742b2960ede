package planner

import (
	"math"
	"math/rand/v2"
	"testing"

	"gearshift/env/engine"
	"gearshift/router/profile"
	"gearshift/workloads"
)

// The closed forms of the second moment agree with draws.
func TestMeanSquare(t *testing.T) {
	for _, l := range []workloads.Lengths{
		{Distribution: "geometric", Mean: 256, Max: 1500},
		{Distribution: "geometric", Mean: 7},
		{Distribution: "uniform", Min: 45, Max: 134},
		{Distribution: "lognormal", Mean: 200, CV: 1.5, Max: 900},
		{Distribution: "constant", Value: 9},
	} {
		const draws = 400_000
		sample, rng := l.Sampler(), rand.New(rand.NewPCG(1, 2))
		var sum float64
		for range draws {
			x := float64(sample(rng))
			sum += x * x / draws
		}
		if want := meanSquare(l); math.Abs(sum/want-1) > 0.01 {
			t.Errorf("%+v: mean square %v, drawn %v", l, want, sum)
		}
	}
}

// A step of 10 ms on the GPU and 10 ms beside it loads the GPU half of the time alone;
// beside two engines with which it takes turns, 25 of 35 ms. A prompt's own cost of 30
// ms is none of the GPU's.
func TestLeastDuty(t *testing.T) {
	l := load{prompt: 50, output: 100, context: 100}
	turns := profile.Profile{Weights: 10, Overhead: 10, Contention: 0.5, Crowding: 0.5}
	shared := turns
	shared.Crowding = 0
	slow := turns
	slow.Prompt = 30
	for _, c := range []struct {
		name    string
		profile profile.Profile
		want    float64
	}{
		{"turns", turns, 0.5}, {"shared", shared, 10 / (10*2 + 10.)}, {"prompts", slow, 0.2},
	} {
		r := replica{kv: 100_000, others: 2, profile: &c.profile, engine: engine.Config{MaxBatchTokens: 50, MaxSequences: 4}}
		if got := r.leastDuty(l); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
