package fit

import (
	"math"
	"math/rand/v2"
	"testing"
)

// served is a log of so many requests of an engine that runs some twenty at once.
func served(n int) []Request {
	rng := rand.New(rand.NewPCG(1, 2))
	requests := make([]Request, n)
	for i := range requests {
		r := &requests[i]
		r.PromptTokens, r.OutputTokens = 1+rng.IntN(500), 1+rng.IntN(300)
		r.Arrival = float64(i)
		r.Scheduled = r.Arrival + float64(rng.IntN(4)) // 0: the log lacks it
		r.First = r.Scheduled + 1 + rng.Float64()
		r.Last = r.First + float64(r.OutputTokens-1)*0.15
	}
	return requests
}

// What is held at a time is what each request by itself says, to the bit, and in
// whatever order the times are asked for.
func TestResident(t *testing.T) {
	requests := served(400)
	rng := rand.New(rand.NewPCG(3, 4))
	times := []float64{-1, 0, requests[7].began(), requests[7].Last, 1e6}
	for range 500 {
		times = append(times, 450*rng.Float64())
	}
	tokens, running := resident(requests, times)
	for k, at := range times {
		var held, runs float64
		for _, r := range requests {
			if at >= r.began() && at <= r.Last {
				held += float64(r.PromptTokens) + math.Max(0, at-r.First)/math.Max(r.Last-r.First, 1e-9)*float64(r.OutputTokens)
				runs++
			}
		}
		if tokens[k] != held || running[k] != runs {
			t.Errorf("at %v: %v tokens of %v requests, want %v of %v", at, tokens[k], running[k], held, runs)
		}
	}
}

// A long log is looked through in no time.
func BenchmarkGuess(b *testing.B) {
	requests := served(100_000)
	for b.Loop() {
		guessFrom(requests)
	}
}
