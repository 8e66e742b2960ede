package env_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/engine"
	"gearshift/router/balance"
	"gearshift/router/profile"
	"gearshift/workloads"
)

// played is what an episode shows from a moment on.
type played struct {
	observations [][]float32
	steps        []env.Step
}

// playOn takes the actions and returns all that the environment answered. The
// simulator checks its invariants at each event.
func playOn(t *testing.T, e *env.Environment, actions []int) played {
	t.Helper()
	var p played
	for _, a := range actions {
		step, err := e.Step(a)
		if err != nil {
			t.Fatal(err)
		}
		p.observations = append(p.observations, slices.Clone(step.Observation))
		step.Observation, step.Info.Outcomes = nil, append([]env.Outcome{}, step.Info.Outcomes...)
		p.steps = append(p.steps, step)
	}
	return p
}

func randomActions(rng *rand.Rand, n int) []int {
	actions := make([]int, n)
	for i := range actions {
		actions[i] = rng.IntN(2)
	}
	return actions
}

// A copy made at any moment, into used memory or new, goes on bit-equal to the
// original; what either does is nothing to the other.
func TestCopyGoesOnAlike(t *testing.T) {
	const requests = 300
	into := new(env.Environment) // one destination for all: it is dirty from the second copy on
	for seed := range uint64(16) {
		rng := rand.New(rand.NewPCG(seed, 3))
		c := twoByTwo(t)
		c.Engine.Scheduler = []string{engine.PrefillFirst, engine.ChunkedPrefill}[seed%2]
		c.Engine.MaxBatchTokens = 64 + rng.IntN(512)
		c.Balancer = []env.Balancer{balance.SmallestBatch{}, balance.PowerOfK{K: 2}, balance.LeastHarm{}}[seed%3]
		c.Forecaster = profile.NewForecaster(c.Profiles)
		arrivals := *poisson(seed, 2+30*rng.Float64(), requests)
		c.Open = of(arrivals...)
		if seed%4 == 3 {
			half := arrivals[requests/2].At
			c.Losses = []env.HostLoss{{Host: 1, From: half, To: half + 5*time.Second}}
		}
		if seed%3 == 1 {
			c.Slowdowns = slices.Repeat([]engine.Slowdown{{Min: 0.7, Max: 1.6, Mean: time.Second}}, len(c.Table.Hosts))
		}
		if seed%5 == 2 {
			c.Routers = env.Routers{Number: 3, Gauges: 300 * time.Millisecond}
		}
		actions := randomActions(rng, requests)
		begin := func() *env.Environment {
			e := make2(t, c)
			if _, err := e.Reset(seed); err != nil {
				t.Fatal(err)
			}
			return e
		}
		want := playOn(t, begin(), actions)

		e := begin()
		at := rng.IntN(requests)
		playOn(t, e, actions[:at])
		rest := func() workloads.Stream { l := slices.Clone(arrivals[at+1:]); return (*list)(&l) }
		into.CopyFrom(e, rest())
		playOn(t, into, randomActions(rng, requests-at)) // other actions disturb nobody
		into.CopyFrom(e, rest())
		third := new(env.Environment)
		third.CopyFrom(into, rest()) // a copy of a copy
		if e.Fingerprint() != third.Fingerprint() {
			t.Errorf("seed %d: a copy has another fingerprint", seed)
		}
		for name, x := range map[string]*env.Environment{"copy": into, "copy of the copy": third, "original": e} {
			got := playOn(t, x, actions[at:])
			if !reflect.DeepEqual(got.steps, want.steps[at:]) || !reflect.DeepEqual(got.observations, want.observations[at:]) {
				t.Fatalf("seed %d: from step %d on the %s goes another way", seed, at, name)
			}
		}
	}
}

// Fingerprints are equal where histories have met, whatever they were before,
// and nowhere else: after them equal actions lead to equal outcomes.
func TestFingerprint(t *testing.T) {
	met, parted := 0, 0
	for seed := range uint64(8) {
		c := twoByTwo(t)
		c.Engine.Scheduler = []string{engine.PrefillFirst, engine.ChunkedPrefill}[seed%2]
		const requests = 120
		arrivals := *poisson(seed, 0.7, requests) // calm enough for hosts to fall idle
		c.Open = of(arrivals...)
		actions := randomActions(rand.New(rand.NewPCG(seed, 9)), requests)
		a, b := make2(t, c), make2(t, c)
		for _, e := range []*env.Environment{a, b} {
			if _, err := e.Reset(seed); err != nil {
				t.Fatal(err)
			}
		}
		playOn(t, a, []int{0})
		playOn(t, b, []int{1})
		for n := 1; n < requests-1; n++ {
			playOn(t, a, actions[n:n+1])
			playOn(t, b, actions[n:n+1])
			if a.Fingerprint() != b.Fingerprint() {
				parted++
				continue
			}
			met++
			one, other := playOn(t, a, actions[n+1:]), playOn(t, b, actions[n+1:])
			if !reflect.DeepEqual(one.steps, other.steps) {
				t.Fatalf("seed %d: equal fingerprints after step %d, and the ways part", seed, n)
			}
			break
		}
	}
	if met < 5 || parted < 5 {
		t.Errorf("%d of 8 histories met, after %d steps in all: too easy a test", met, parted)
	}
}

// Copying into a destination of the right size takes no memory.
func TestCopyAllocatesNothing(t *testing.T) {
	e := make2(t, twoByTwo(t))
	if _, err := e.Reset(1); err != nil {
		t.Fatal(err)
	}
	playOn(t, e, randomActions(rand.New(rand.NewPCG(1, 1)), 200))
	var into env.Environment
	if n := testing.AllocsPerRun(20, func() { into.CopyFrom(e, nil) }); n != 0 {
		t.Errorf("%v allocations per copy", n)
	}
}

func BenchmarkCopy(b *testing.B) {
	e, err := env.New(twoByTwo(b))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := e.Reset(1); err != nil {
		b.Fatal(err)
	}
	for n := range 200 {
		if _, err := e.Step(n % 2); err != nil {
			b.Fatal(err)
		}
	}
	var into env.Environment
	b.ReportAllocs()
	for b.Loop() {
		into.CopyFrom(e, nil)
	}
}
