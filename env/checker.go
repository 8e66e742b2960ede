package env

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// CheckEnvironment plays a random policy for some episodes and verifies the
// Gymnasium contract, as its env_checker does: observations within the space,
// the same seed and actions giving the same episode, termination and
// truncation apart, no step after the end, every request ended exactly once,
// and rewards adding up to the utilities. maxSteps bounds each episode that is
// played. The environment needs an Encoder.
func CheckEnvironment(e *Environment, seed uint64, maxSteps int) error {
	if e.Dim() == 0 {
		return fmt.Errorf("environment check: no encoder, so no observations")
	}
	if e.over {
		if _, err := e.Step(0); err == nil {
			return fmt.Errorf("environment check: Step before Reset succeeds")
		}
	}
	first, err := e.playRandomly(seed, maxSteps)
	if err != nil {
		return fmt.Errorf("environment check, seed %d: %w", seed, err)
	}
	again, err := e.playRandomly(seed, maxSteps)
	if err != nil {
		return fmt.Errorf("environment check, seed %d again: %w", seed, err)
	}
	if !slices.Equal(first, again) {
		return fmt.Errorf("environment check: two episodes of seed %d differ", seed)
	}
	other, err := e.playRandomly(seed+1, maxSteps)
	if err != nil {
		return fmt.Errorf("environment check, seed %d: %w", seed+1, err)
	}
	if slices.Equal(first, other) {
		return fmt.Errorf("environment check: seeds %d and %d give the same episode", seed, seed+1)
	}
	return nil
}

// playRandomly returns a transcript of the episode.
func (e *Environment) playRandomly(seed uint64, maxSteps int) (transcript []float64, err error) {
	observation, err := e.Reset(seed)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	ended := map[int]bool{}
	mask := make([]bool, e.Actions())
	for n := 0; n < maxSteps; n++ {
		if err := e.checkObservation(observation); err != nil {
			return nil, fmt.Errorf("step %d: %w", n, err)
		}
		step, err := e.Step(randomAction(e, mask, rng))
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", n, err)
		}
		if err := checkStep(&step, ended, n); err != nil {
			return nil, fmt.Errorf("step %d: %w", n, err)
		}
		for _, x := range step.Observation {
			transcript = append(transcript, float64(x))
		}
		transcript = append(transcript, step.Reward, step.Info.Elapsed.Seconds())
		if step.Terminated || step.Truncated {
			return transcript, e.checkEnd(n+1, ended)
		}
		observation = step.Observation
	}
	return transcript, nil
}

func randomAction(e *Environment, mask []bool, rng *rand.Rand) int {
	e.ActionMask(mask)
	action := rng.IntN(len(mask))
	for !mask[action] {
		action = (action + 1) % len(mask)
	}
	return action
}

func (e *Environment) checkObservation(observation []float32) error {
	low, high := e.Bounds()
	if len(observation) != e.Dim() {
		return fmt.Errorf("observation of length %d, want %d", len(observation), e.Dim())
	}
	for i, x := range observation {
		if !(x >= low && x <= high) {
			return fmt.Errorf("observation[%d] = %v is not in [%v, %v]", i, x, low, high)
		}
	}
	return nil
}

func checkStep(s *Step, ended map[int]bool, n int) error {
	if s.Terminated && s.Truncated {
		return fmt.Errorf("terminated and truncated at once")
	}
	if s.Info.Elapsed < 0 {
		return fmt.Errorf("time runs back by %v", -s.Info.Elapsed)
	}
	var reward float64
	last := time.Duration(0)
	for i := range s.Info.Outcomes {
		o := &s.Info.Outcomes[i]
		switch {
		case o.Decision > n:
			return fmt.Errorf("decision %d ended before it was made", o.Decision)
		case ended[o.Decision]:
			return fmt.Errorf("decision %d ended twice", o.Decision)
		case o.Finished < last || o.FirstToken < o.Request.Arrival || o.Finished < o.FirstToken:
			return fmt.Errorf("decision %d: arrival %v, first token %v, finish %v out of order", o.Decision, o.Request.Arrival, o.FirstToken, o.Finished)
		}
		ended[o.Decision], last = true, o.Finished
		reward += o.Utility
	}
	if reward != s.Reward {
		return fmt.Errorf("reward %v, outcomes add up to %v", s.Reward, reward)
	}
	return nil
}

// checkEnd wants every decision ended and no further step possible.
func (e *Environment) checkEnd(decisions int, ended map[int]bool) error {
	if len(ended) != decisions {
		return fmt.Errorf("%d decisions, %d ended", decisions, len(ended))
	}
	leases := e.ledger.InFlight()
	if e.crew != nil {
		leases = e.crew.inFlight()
	}
	if e.sim.InFlight() != 0 || leases != 0 {
		return fmt.Errorf("at the end %d requests are in the simulator and %d in the ledger", e.sim.InFlight(), leases)
	}
	if _, err := e.Step(0); err == nil {
		return fmt.Errorf("Step after the end of the episode succeeds")
	}
	return nil
}
