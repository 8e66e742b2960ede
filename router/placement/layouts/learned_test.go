package layouts_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gearshift/router/nn"
	"gearshift/router/placement/layouts"
)

// situation returns one of three hosts with two layouts each, at a load. From 20 requests/s on the second gains.
func situation(t *testing.T, rate float64) *layouts.Situation {
	t.Helper()
	gain := func(load float64) float64 { return 0.01 * (load - 20) / (load + 1) }
	valued := 1.2 * rate
	s := &layouts.Situation{
		Now: time.Minute, Table: table(t, 3, three), Loads: []layouts.Load{{Rate: rate, Forecast: rate}}, Horizon: 10 * time.Second,
		Held: make([]int, 3), Worth: 0.8 * valued, Valued: valued,
		Gain: func(_, _ int, load float64) float64 { return gain(load) },
	}
	for h := range 3 {
		list, err := layouts.List(s.Table, h, layouts.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		s.Hosts = append(s.Hosts, layouts.HostState{
			Layouts: list[:2], Worth: []float64{s.Worth, s.Worth + valued*gain(valued)}, Capacity: []float64{8, 16}, Quality: []float64{1, 0.9},
			Takes: []time.Duration{0, 2 * time.Second}, First: make([]time.Duration, 2), Barred: make([]string, 2),
		})
	}
	return s
}

func network(t *testing.T) *nn.MLP {
	t.Helper()
	m, err := nn.New(layouts.LearnedInputs, layouts.LearnedOutputs)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func chooser(t *testing.T, m *nn.MLP) layouts.Chooser {
	t.Helper()
	r, err := layouts.NewLearned(m)
	if err != nil {
		t.Fatal(err)
	}
	return r.Chooser
}

// A policy that has learnt nothing decides like the rule.
func TestLearnedBeginsAsTheRule(t *testing.T) {
	rule, err := layouts.Parse("worth:0.003,4,5,1.2,0")
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	for rate := 0.5; rate < 60; rate += 0.5 {
		got, want := chooser(t, network(t)).Choose(situation(t, rate)), rule.Choose(situation(t, rate))
		if got.Host != want.Host || got.Layout != want.Layout {
			t.Errorf("at %v requests/s host %d changes to %d, by the rule %d to %d", rate, got.Host, got.Layout, want.Host, want.Layout)
		}
		if got.Host >= 0 {
			changed++
		}
	}
	if changed == 0 || changed == 119 {
		t.Errorf("%d of 119 situations are changed", changed)
	}
}

// What it learns moves the load at which it changes, and any numbers give a decision.
func TestLearnedFollowsItsNetwork(t *testing.T) {
	lowest := func(factor float64) (rate float64) {
		m := network(t)
		m.Biases[0][2] = float32(math.Log(factor)) // the load of changes to more capacity
		for rate = 0.5; rate < 60; rate += 0.5 {
			if chooser(t, m).Choose(situation(t, rate)).Host >= 0 {
				break
			}
		}
		return rate
	}
	if a, b, c := lowest(0.8), lowest(1), lowest(2); !(a > b && b > c) {
		t.Errorf("a load of 0.8, 1 and 2 times the rule's is changed from %v, %v and %v requests/s on", a, b, c)
	}
	for seed := range uint64(50) {
		m := network(t)
		m.Randomise(rand.New(rand.NewPCG(seed, 0)))
		s := situation(t, math.Exp(float64(seed)-25))
		s.Hosts[0].Busy = math.NaN()
		if c := chooser(t, m).Choose(s); c.Host >= 0 && c.Layout != 1 {
			t.Errorf("host %d gets layout %d", c.Host, c.Layout)
		}
	}
}

func TestLearnedAllocatesNothing(t *testing.T) {
	c, s := chooser(t, network(t)), situation(t, 10)
	if n := testing.AllocsPerRun(100, func() { s.Now += time.Second; c.Choose(s) }); n > 0 {
		t.Errorf("a choice allocates %v times", n)
	}
}

func TestLearnedRefusesOtherNetworks(t *testing.T) {
	m, err := nn.New(3, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := layouts.NewLearned(m); err == nil {
		t.Error("a network of 3 inputs is taken")
	}
}
