package profile_test

import (
	"math"
	"testing"
	"time"

	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/profile"
)

// The first token comes after the step under way, the wait for room in the cache, and the
// prefill.
func TestFirst(t *testing.T) {
	p := &profile.Profile{Weights: 10, Token: 0.1, Overhead: 2}
	for _, c := range []struct {
		name string
		join profile.Joining
		want float64
	}{
		{"idle", profile.Joining{Prompt: 1000}, 100 + 2},
		{"idle, beside others", profile.Joining{Prompt: 1000, KVTokens: 10, Output: 100}, 100 + 2},
		{"a batch of 10", profile.Joining{Prompt: 1000, Sequences: 10, Held: 5000, KVTokens: 6000, Output: 100}, 102 + 10 + 1 + 2 - 1},
		{"no room for 500 of 5000 tokens", profile.Joining{Prompt: 1000, Sequences: 10, Held: 5000, KVTokens: 5500, Output: 100}, 102 + 12 + 0.1*100*12},
		{"a cache of unknown size", profile.Joining{Prompt: 1000, Sequences: 10, Held: 5000, Output: 100}, 102 + 12},
	} {
		if got := p.First(c.join); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v ms, want %v", c.name, got, c.want)
		}
	}
	if got := profile.Total(100, 20, 11); got != 300 {
		t.Errorf("total %v, want 100 + 10 × 20", got)
	}
	if got := profile.Total(100, 20, 0); got != 100 {
		t.Errorf("total %v of an answer without tokens, want 100", got)
	}
}

// Deadlines to the first token and to the end are forecast as multiples of themselves, the
// wait so far included, and add to the misses; what is forecast of the pace stays.
func TestForecastOfSeveralDeadlines(t *testing.T) {
	table := conformance.Fleet(0)
	p := &profile.Profile{Weights: 10, Token: 0.1, Overhead: 2}
	var profiles []*profile.Profile
	for range table.Replicas {
		profiles = append(profiles, p)
	}
	v := &fleet.View{Table: table, InFlight: make([]int32, 12), Held: make([]int32, 12), Down: make([]bool, 12), Now: 3 * time.Second}
	f := profile.NewForecaster(profiles).Expecting([]float64{101, 101, 101, 101})
	forecast := func(r fleet.Request) fleet.Forecast {
		r.PromptTokens = 1000
		f.Forecast(v, &r)
		return v.Forecasts[0]
	}
	plain := forecast(fleet.Request{})
	if plain.First != 0 || plain.Total != 0 {
		t.Errorf("%+v without such deadlines", plain)
	}
	// By hand, idle: 102 ms to the first token, 12 ms to each of 100 more, 2 s of waiting.
	got := forecast(fleet.Request{FirstToken: 2 * time.Second, Total: 4 * time.Second, Arrival: time.Second})
	if math.Abs(got.First-2.102/2) > 1e-9 || math.Abs(got.Total-3.302/4) > 1e-9 || got.Pace != plain.Pace {
		t.Errorf("%+v, want first %v and total %v", got, 2.102/2, 3.302/4)
	}
	if more := got.Misses - plain.Misses; more < 0.5 || more > 1 {
		t.Errorf("a late first token adds %v misses", more)
	}
	if calm := forecast(fleet.Request{FirstToken: time.Minute, Total: time.Hour, Arrival: 3 * time.Second}); math.Abs(calm.Misses-plain.Misses) > 1e-6 {
		t.Errorf("deadlines that surely hold add %v misses", calm.Misses-plain.Misses)
	}
	if n := testing.AllocsPerRun(100, func() {
		f.Forecast(v, &fleet.Request{PromptTokens: 1000, FirstToken: time.Second, Total: time.Minute})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
