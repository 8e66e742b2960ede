package env_test

import (
	"math"
	"testing"
)

// The true fleet's GPU part is slower by the factor in prefill and decode; its
// overheads, its floor and the profiles that rules hold are as they were.
func TestSlowGPU(t *testing.T) {
	c := twoByTwo(t)
	declared := c.Profiles[2]
	before := *declared
	c.SlowGPU(1.25)
	if *declared != before {
		t.Error("the declared profile changed")
	}
	if c.Profiles[0] != c.Profiles[1] || c.Profiles[2] != c.Profiles[3] || c.Profiles[2] == declared {
		t.Error("replicas that shared a profile do not share the slowed one")
	}
	for _, step := range []struct{ tokens, context int }{{90, 0}, {8, 1744}, {512, 0}} {
		want := 1.25 * declared.GPU(step.tokens, step.context)
		if got := c.Profiles[2].GPU(step.tokens, step.context); math.Abs(got-want) > 1e-9 {
			t.Errorf("%+v: the GPU part takes %v ms, want %v", step, got, want)
		}
	}
	if p := c.Profiles[2]; p.Overhead != before.Overhead || p.LaunchFloor != before.LaunchFloor || p.KVBytes != before.KVBytes {
		t.Errorf("more than the GPU part changed: %+v", p)
	}
}

// Engines that are slower by a factor take that many times as long for every step, a
// prompt's own cost included.
func TestSlowVariants(t *testing.T) {
	c := twoByTwo(t)
	for i := range c.Profiles {
		p := *c.Profiles[i]
		p.Prompt = 3
		c.Profiles[i] = &p
	}
	declared := c.Profiles
	factors := []float64{0.8, 1.25}
	c.SlowVariants(factors)
	for i, p := range c.Profiles {
		f := factors[c.Table.Replicas[i].Variant]
		if got, want := p.Prefill(90, 0), f*declared[i].Prefill(90, 0); math.Abs(got-want) > 1e-9 {
			t.Errorf("replica %d: a prefill takes %v ms, want %v", i, got, want)
		}
		want, _ := declared[i].Step(8, 8, 1744, 0.5)
		if got, _ := p.Step(8, 8, 1744, 0.5); math.Abs(got-f*want) > 1e-9 {
			t.Errorf("replica %d: a step takes %v ms, want %v", i, got, f*want)
		}
	}
}
