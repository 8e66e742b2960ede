package env

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"gearshift/router/fleet"
)

// CheckEnvironment plays a random policy for some episodes and verifies the
// Gymnasium contract, as its env_checker does: observations within the space,
// the same seed and actions giving the same episode, termination and
// truncation apart, no step after the end, every request ended exactly once,
// and rewards adding up to what the decisions are worth. maxSteps bounds each episode that is
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
	var made []decision
	for n := 0; n < maxSteps; n++ {
		if err := e.checkObservation(observation); err != nil {
			return nil, fmt.Errorf("step %d: %w", n, err)
		}
		made = append(made, decision{e.request, randomAction(e, mask, rng)})
		step, err := e.Step(made[n].variant)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", n, err)
		}
		if err := e.checkStep(&step, made, ended); err != nil {
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

// decision is a request and the variant that it was sent to.
type decision struct {
	request fleet.Request
	variant int
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

func (e *Environment) checkStep(s *Step, made []decision, ended map[int]bool) error {
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
		case o.Decision >= len(made):
			return fmt.Errorf("decision %d ended before it was made", o.Decision)
		case ended[o.Decision]:
			return fmt.Errorf("decision %d ended twice", o.Decision)
		case o.Finished < last || o.FirstToken < o.Request.Arrival || o.Finished < o.FirstToken:
			return fmt.Errorf("decision %d: arrival %v, first token %v, finish %v out of order", o.Decision, o.Request.Arrival, o.FirstToken, o.Finished)
		}
		ended[o.Decision], last = true, o.Finished
		reward += e.worth(&made[o.Decision], o)
	}
	if reward != s.Reward {
		return fmt.Errorf("reward %v, the decisions that ended are worth %v", s.Reward, reward)
	}
	return nil
}

// worth is the utility of the decision, reckoned apart from the simulator.
func (e *Environment) worth(d *decision, o *Outcome) float64 {
	if o.Failed {
		return 0
	}
	latency := (o.Finished - d.request.Arrival) / time.Duration(o.OutputTokens)
	return e.config.Table.Tasks[d.request.Task].Utility(d.variant, latency, d.request.Deadline)
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
