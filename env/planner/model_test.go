package planner

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

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

// Lengths drawn above a bound are above it and have the conditional law: what
// is left of a geometric one has the mean that it had at the beginning.
func TestLengthsAbove(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	l := newLengths(workloads.Lengths{Distribution: "geometric", Mean: 100}, rng)
	for _, tokens := range []int{0, 50, 200} {
		const draws = 20_000
		var sum float64
		for range draws {
			n := l.above(tokens, rng)
			if n <= tokens {
				t.Fatalf("length %d drawn above %d", n, tokens)
			}
			sum += float64(n-tokens) / draws
		}
		if math.Abs(sum-100) > 6 {
			t.Errorf("above %d tokens %v more on average, want 100", tokens, sum)
		}
	}
	capped := newLengths(workloads.Lengths{Distribution: "uniform", Min: 5, Max: 10}, rng)
	if n := capped.above(9, rng); n != 10 {
		t.Errorf("above 9 of 5 to 10: %d", n)
	}
	if n := capped.above(12, rng); n != 13 {
		t.Errorf("above the longest, 12: %d, want one more", n)
	}
}

// The belief finds the rate, and follows when it changes.
func TestBelief(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	b := newBelief(Rates{Least: 0.25, Most: 48, Phase: 20 * time.Second})
	var now time.Duration
	for _, rate := range []float64{1, 40, 0.5} {
		var mean float64
		for n := range 400 {
			now += time.Duration(rng.ExpFloat64() / rate * float64(time.Second))
			b.arrive(now)
			var whole float64
			for _, p := range b.p {
				whole += p
			}
			if math.Abs(whole-1) > 1e-9 {
				t.Fatalf("probabilities sum to %v", whole)
			}
			if n >= 100 {
				mean += b.expected() / 300
			}
		}
		if mean < 0.7*rate || mean > 1.6*rate {
			t.Errorf("at %v a second the belief is in %v on average", rate, mean)
		}
	}
	b.arrive(now + 1000*time.Hour) // what no rate explains
	if mean := b.expected(); !(mean > 0) {
		t.Errorf("after a silence the expected rate is %v", mean)
	}
}

// Sampled arrivals come at the believed rate at first, and in the long run at
// the mean of all rates.
func TestAhead(t *testing.T) {
	m := Rates{Least: 1, Most: 30, Phase: 10 * time.Second}
	count := func(a ahead, seconds float64) float64 {
		var n float64
		const runs = 200
		for seed := range uint64(runs) {
			times := a.Times(rand.New(rand.NewPCG(seed, 1)))
			for at, _, ok := times.Next(); ok && at.Seconds() < seconds; at, _, ok = times.Next() {
				n += 1. / runs
			}
		}
		return n / seconds
	}
	known := newBelief(m)
	clear(known.p)
	known.p[0] = 1
	if rate := count(ahead{belief: known}, 1); rate < 0.8 || rate > 3 {
		t.Errorf("sure of 1 a second, %v come in the first", rate)
	}
	if rate, mean := count(ahead{belief: known}, 200), newBelief(m).expected(); math.Abs(rate/mean-1) > 0.1 {
		t.Errorf("in the long run %v a second, want %v", rate, mean)
	}
	if rate := count(ahead{known: 7}, 50); math.Abs(rate-7) > 0.3 || (ahead{known: 7}).MeanRate() != 7 {
		t.Errorf("told 7 a second, %v come", rate)
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
