package engine_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/env/engine"
)

// stepsOf is how long each step of one long sequence takes, in milliseconds, on a host
// whose plain step takes one.
func stepsOf(t *testing.T, h *engine.Host) (ms []float64) {
	t.Helper()
	h.Submit(0, engine.Sequence{ID: 1, PromptTokens: 1, OutputTokens: 400_000}, 0)
	last := time.Duration(0)
	for at, ok := h.Next(); ok; at, ok = h.Next() {
		ms = append(ms, float64(at-last)/float64(time.Millisecond))
		last = at
		h.Step(nil)
	}
	return ms
}

func lonely(t *testing.T) *engine.Host {
	c := engine.Config{Scheduler: engine.PrefillFirst, MaxBatchTokens: 64, MaxSequences: 4, BlockTokens: 16}
	return engine.NewHost(newEngine(t, c, plain, 1_000_000))
}

// A host's slowdown is of the distribution asked for: steps take between so many and so
// many times as long, in the mean of logarithms midway, and as long as they did before
// for the mean time asked for.
func TestSlowdown(t *testing.T) {
	s := engine.Slowdown{Min: 0.8, Max: 1.8, Mean: 200 * time.Millisecond}
	h := lonely(t)
	h.SlowDown(s, 7)
	ms := stepsOf(t, h)
	var total, changes, logs float64
	for i, x := range ms {
		total += x
		if i == 0 || math.Abs(x-ms[i-1]) > 1e-5 { // times are whole nanoseconds
			changes++
			logs += math.Log(x)
		}
	}
	if least, most := slices.Min(ms), slices.Max(ms); least < 0.8-1e-5 || least > 0.82 || most > 1.8+1e-5 || most < 1.75 {
		t.Errorf("steps take %.3f to %.3f ms, want all of .8 to 1.8", least, most)
	}
	if held := total / changes; held < 180 || held > 220 {
		t.Errorf("a slowdown holds for %.0f ms in the mean of %.0f, want 200", held, changes)
	}
	if got, want := logs/changes, (math.Log(0.8)+math.Log(1.8))/2; math.Abs(got-want) > 0.02 {
		t.Errorf("the logarithm's mean is %.3f, want %.3f", got, want)
	}
}

// The same seed gives the same slowdowns, another one others, and a copy goes on alike.
func TestSlowdownRepeats(t *testing.T) {
	s := engine.Slowdown{Min: 0.5, Max: 2, Mean: time.Second}
	of := func(seed uint64) []float64 {
		h := lonely(t)
		h.SlowDown(s, seed)
		return stepsOf(t, h)
	}
	copied := new(engine.Host)
	h := lonely(t)
	h.SlowDown(s, 1)
	copied.CopyFrom(h)
	once := of(1)
	if !slices.Equal(once, of(1)) || !slices.Equal(once, stepsOf(t, copied)) {
		t.Error("the same seed slows differently")
	}
	if slices.Equal(once, of(2)) {
		t.Error("two seeds slow alike")
	}
	if plain := stepsOf(t, lonely(t)); slices.Min(plain) != 1 || slices.Max(plain) != 1 {
		t.Error("a host without a slowdown does not keep to its profile")
	}
}

func TestSlowdownNamesItsFaults(t *testing.T) {
	for _, c := range []struct {
		s    engine.Slowdown
		want string
	}{
		{engine.Slowdown{Min: 1, Max: 1, Mean: 1}, ""},
		{engine.Slowdown{Min: 0, Max: 1, Mean: 1}, "a slowdown from 0 to 1"},
		{engine.Slowdown{Min: 2, Max: 1, Mean: 1}, "a slowdown from 2 to 1"},
		{engine.Slowdown{Min: 1, Max: math.NaN(), Mean: 1}, "a slowdown from 1 to NaN"},
		{engine.Slowdown{Min: 1, Max: 1}, "a slowdown that holds for 0s"},
	} {
		switch err := c.s.Validate(); {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: %v, want %q", c.s, err, c.want)
		}
	}
}
