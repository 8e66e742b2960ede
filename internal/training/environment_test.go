package training

import (
	"math"
	"slices"
	"testing"

	"gearshift/internal/scenario"
	"gearshift/rl"
	"gearshift/workloads"
)

// Strata depend on the load alone, never fall as it grows, and stay in range.
func TestStratum(t *testing.T) {
	last := 0
	for load := 1e-6; load < 1e6; load *= 1.01 {
		s := stratum(load)
		if s < last || s >= rl.Strata {
			t.Fatalf("load %v is of stratum %d, after %d of %d", load, s, last, rl.Strata)
		}
		last = s
	}
	if a, b := stratum(4), stratum(8); b-a != 4 || stratum(0) != 0 {
		t.Errorf("strata %d and %d of 4/s and 8/s, %d of none", a, b, stratum(0))
	}
}

// The environment as the loop sees it completes every decision of an episode
// exactly once, in the stratum of its own arrival (LBE-11), and is cut without ending.
func TestEnvironmentJoinsOutcomes(t *testing.T) {
	steady, slowed := tiny(t), tiny(t)
	slowed.Hosts[0].Slowdown = &scenario.Slowdown{Min: 2, Max: 2, MeanS: 1}
	joinsOutcomes(t, steady, 1)
	joinsOutcomes(t, slowed, 2)
	served := tiny(t)
	served.Training.AsServed = true
	served.Training.Load.MinRate, served.Training.Load.MaxRate = 300, 900 // so that requests are refused
	joinsOutcomes(t, served, 1)
}

func tiny(t *testing.T) *scenario.Scenario {
	s, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Marginal rewards are dealt out otherwise than utilities, and come to the same.
func TestMarginalRewards(t *testing.T) {
	const episode = 300
	rewards := func(marginal bool) (sum float64, list []float64) {
		s := tiny(t)
		e, err := NewEnvironment(s, s.Spec(), &rl.Config{Episode: episode, MarginalRewards: marginal})
		if err != nil {
			t.Fatal(err)
		}
		e.Reset(workloads.Seed(workloads.Training, 1))
		list = make([]float64, episode)
		for range episode {
			for _, c := range e.Step(1).Completed {
				list[c.Decision] = c.Utility
				sum += c.Utility
			}
		}
		return sum, list
	}
	own, each := rewards(false)
	marginal, changed := rewards(true)
	if math.Abs(own-marginal) > 1e-9 || own == 0 || slices.Equal(each, changed) {
		t.Errorf("utilities of %v, marginal rewards of %v, the same for each: %t", own, marginal, slices.Equal(each, changed))
	}
}

func joinsOutcomes(t *testing.T, s *scenario.Scenario, slowdown float64) {
	const episode = 300
	e, err := NewEnvironment(s, s.Spec(), &rl.Config{Episode: episode})
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(2) {
		e.Reset(workloads.Seed(workloads.Training, seed))
		var strata []int
		ended := map[int]bool{}
		for n := range episode {
			strata = append(strata, stratum(e.Arrival().Rate*slowdown))
			step := e.Step(n % 2)
			for _, c := range step.Completed {
				if ended[c.Decision] || c.Decision > n || c.Stratum != strata[c.Decision] {
					t.Fatalf("decision %d: %+v, in stratum %d, ended before: %t", n, c, strata[c.Decision], ended[c.Decision])
				}
				ended[c.Decision] = true
			}
			if step.Terminated || step.Truncated != (n == episode-1) {
				t.Fatalf("decision %d: %+v", n, step)
			}
		}
		if len(ended) != episode {
			t.Errorf("%d of %d decisions ended", len(ended), episode)
		}
	}
	if e.Step(0); e.Err() == nil { // after the end
		t.Error("an error of the environment is lost")
	}
}

// On the smallest fleet that can be disturbed there is always something to choose.
func TestDisturbancesLeaveSomethingUp(t *testing.T) {
	s, err := scenario.Load("titan-rtx-opt")
	if err != nil {
		t.Fatal(err)
	}
	s.Hosts, s.Replicas = s.Hosts[:2], s.Replicas[2:3]
	s.Replicas[0].Hosts = []string{s.Hosts[0].Name, s.Hosts[1].Name}
	s.Training.Load.Disturbances = workloads.Disturbances{Share: 1, Calm: 5, Lasts: 30}
	const episode = 2000
	e, err := NewEnvironment(s, s.Spec(), &rl.Config{Episode: episode})
	if err != nil {
		t.Fatal(err)
	}
	mask, down := make([]bool, e.Actions()), 0
	for seed := range uint64(8) {
		e.Reset(seed)
		for range episode {
			if slices.Contains(e.View().Down, true) {
				down++
			}
			e.ActionMask(mask)
			action := slices.Index(mask, true)
			if action < 0 {
				t.Fatalf("seed %d: nothing is up at %v", seed, e.Arrival().At)
			}
			if e.Step(action); e.Err() != nil {
				t.Fatal(e.Err())
			}
		}
	}
	if down == 0 {
		t.Error("nothing was ever down")
	}
}

// In disturbed episodes replicas go down and come back, and requests fail with their hosts; each completes every decision
// once, and none is disturbed unless that is asked for.
func TestDisturbedEpisodes(t *testing.T) {
	s, err := scenario.Load("titan-rtx-opt")
	if err != nil {
		t.Fatal(err)
	}
	const episode = 2000
	play := func(seed uint64) (down int) {
		e, err := NewEnvironment(s, s.Spec(), &rl.Config{Episode: episode})
		if err != nil {
			t.Fatal(err)
		}
		e.Reset(seed)
		mask, completed := make([]bool, e.Actions()), 0
		for n := range episode {
			e.ActionMask(mask)
			if slices.Contains(e.View().Down, true) {
				down++
			}
			action := n % len(mask)
			for !mask[action] {
				action = (action + 1) % len(mask)
			}
			step := e.Step(action)
			if e.Err() != nil {
				t.Fatal(e.Err())
			}
			completed += len(step.Completed)
		}
		if completed != episode {
			t.Errorf("%d of %d decisions completed", completed, episode)
		}
		return down
	}
	calm := play(3)
	s.Training.Load.Disturbances = workloads.Disturbances{Share: 0.5, Calm: 30, Lasts: 30}
	disturbed := 0
	for seed := range uint64(6) {
		if play(seed) > 0 {
			disturbed++
		}
	}
	if calm != 0 || disturbed == 0 || disturbed == 6 {
		t.Errorf("%d of 6 episodes are disturbed, %d decisions of a calm one", disturbed, calm)
	}
}
