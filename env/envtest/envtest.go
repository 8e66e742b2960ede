// Package envtest tests environments: a check that one keeps its contract, whatever
// its fleet and its workload.
package envtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"gearshift/env"
	"gearshift/router/fleet"
)

// Check plays a random policy for some episodes and verifies the Gymnasium
// contract, as its env_checker does: observations within the space, the same seed
// and actions giving the same episode, termination and truncation apart, no step
// before the beginning or after the end, every request ended exactly once, and
// rewards adding up to what the decisions are worth. maxSteps bounds each episode
// that is played. The environment is new, and needs an Encoder.
func Check(e *env.Environment, seed uint64, maxSteps int) error {
	if e.Dim() == 0 {
		return fmt.Errorf("environment check: no encoder, so no observations")
	}
	if _, err := e.Step(0); err == nil {
		return fmt.Errorf("environment check: Step before Reset succeeds")
	}
	first, err := playRandomly(e, seed, maxSteps)
	if err != nil {
		return fmt.Errorf("environment check, seed %d: %w", seed, err)
	}
	again, err := playRandomly(e, seed, maxSteps)
	if err != nil {
		return fmt.Errorf("environment check, seed %d again: %w", seed, err)
	}
	if !slices.Equal(first, again) {
		return fmt.Errorf("environment check: two episodes of seed %d differ", seed)
	}
	other, err := playRandomly(e, seed+1, maxSteps)
	if err != nil {
		return fmt.Errorf("environment check, seed %d: %w", seed+1, err)
	}
	if slices.Equal(first, other) {
		return fmt.Errorf("environment check: seeds %d and %d give the same episode", seed, seed+1)
	}
	return nil
}

// playRandomly returns a transcript of the episode.
func playRandomly(e *env.Environment, seed uint64, maxSteps int) (transcript []float64, err error) {
	observation, err := e.Reset(seed)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	ended := map[int]bool{}
	mask := make([]bool, e.Actions())
	var made []decision
	for n := 0; n < maxSteps; n++ {
		if err := checkObservation(e, observation); err != nil {
			return nil, fmt.Errorf("step %d: %w", n, err)
		}
		made = append(made, decision{*e.Request(), randomAction(e, mask, rng)})
		step, err := e.Step(made[n].variant)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", n, err)
		}
		if err := checkStep(e, &step, made, ended); err != nil {
			return nil, fmt.Errorf("step %d: %w", n, err)
		}
		for _, x := range step.Observation {
			transcript = append(transcript, float64(x))
		}
		transcript = append(transcript, step.Reward, step.Info.Elapsed.Seconds())
		if step.Terminated || step.Truncated {
			return transcript, checkEnd(e, n+1, ended)
		}
		observation = step.Observation
	}
	return transcript, nil
}

// decision is a request and the variant that it was sent to.
type decision struct {
	request fleet.Request
	variant int
}

func randomAction(e *env.Environment, mask []bool, rng *rand.Rand) int {
	e.ActionMask(mask)
	action := rng.IntN(len(mask))
	for !mask[action] {
		action = (action + 1) % len(mask)
	}
	return action
}

func checkObservation(e *env.Environment, observation []float32) error {
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

func checkStep(e *env.Environment, s *env.Step, made []decision, ended map[int]bool) error {
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
		case o.Refused != "":
			if o.Decision != -1 || o.Utility != 0 || o.Finished < last {
				return fmt.Errorf("request %d is refused (%s) with decision %d and utility %v at %v, after %v", o.Request.ID, o.Refused, o.Decision, o.Utility, o.Finished, last)
			}
			last = o.Finished
			continue
		case o.Decision >= len(made):
			return fmt.Errorf("decision %d ended before it was made", o.Decision)
		case ended[o.Decision]:
			return fmt.Errorf("decision %d ended twice", o.Decision)
		case o.Finished < last || o.FirstToken < o.Request.Arrival || o.Finished < o.FirstToken:
			return fmt.Errorf("decision %d: arrival %v, first token %v, finish %v out of order", o.Decision, o.Request.Arrival, o.FirstToken, o.Finished)
		}
		ended[o.Decision], last = true, o.Finished
		reward += worth(e, &made[o.Decision], o)
	}
	if reward != s.Reward {
		return fmt.Errorf("reward %v, the decisions that ended are worth %v", s.Reward, reward)
	}
	return nil
}

// worth returns the utility of the decision, computed independently of the simulator.
func worth(e *env.Environment, d *decision, o *env.Outcome) float64 {
	if o.Failed {
		return 0
	}
	variant := d.variant
	if o.Degraded {
		variant = o.Variant
	}
	took := fleet.Times{FirstToken: o.FirstToken - d.request.Arrival, Total: o.Finished - d.request.Arrival}
	task := &e.View().Table.Tasks[d.request.Task]
	deadlines := task.Deadlines(&d.request)
	if o.OutputTokens > 0 {
		took.PerToken = took.Total / time.Duration(o.OutputTokens)
	} else if took.PerToken = took.Total; deadlines.Total > 0 {
		deadlines.PerToken = 0
	}
	if prompt := d.request.Prompt; prompt > 0 {
		return task.Worth(float64(e.Config().Prompts.Scores[prompt-1][variant]), took, deadlines)
	}
	return task.Utility(variant, took, deadlines)
}

// checkEnd wants every decision ended and no further step possible.
func checkEnd(e *env.Environment, decisions int, ended map[int]bool) error {
	if len(ended) != decisions {
		return fmt.Errorf("%d decisions, %d ended", decisions, len(ended))
	}
	if simulated, leased := e.Simulator().InFlight(), e.InFlight(); simulated != 0 || leased != 0 {
		return fmt.Errorf("at the end %d requests are in the simulator and %d in the ledger", simulated, leased)
	}
	if _, err := e.Step(0); err == nil {
		return fmt.Errorf("a step after the end of the episode succeeds")
	}
	return nil
}
