package rl

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gearshift/router/nn"
)

// Rows is how an observation divides where a network values the actions one by
// one: Shared numbers, which all actions have in common, then for each of Count
// actions Own numbers more. The network's inputs are the shared numbers and one
// action's own, its one output is that action's value. The first of an action's
// own numbers is 0 where the action may not be taken.
//
// The zero value is the usual division, which is none: the observation is the
// network's input, and each output is an action's value.
type Rows struct {
	Shared, Own, Count int
	// Taken has replay keep, of each observation, only the row that was taken, so that a
	// transition costs the same with any number of actions. It is for rewards that are all
	// that a decision is worth ([Config.DifferenceRewards]): what follows is not kept.
	Taken bool
}

// Inputs is what the network sees at once.
func (r Rows) Inputs() int { return r.Shared + r.Own }

// Dim is the length of an observation.
func (r Rows) Dim() int { return r.Shared + r.Count*r.Own }

// Row writes the inputs that value an action into dst, whose length is Inputs.
func (r Rows) Row(dst, observation []float32, action int) {
	copy(dst[:r.Shared], observation)
	copy(dst[r.Shared:], observation[r.Shared+action*r.Own:][:r.Own])
}

// Open reports whether the action may be taken.
func (r Rows) Open(observation []float32, action int) bool {
	return observation[r.Shared+action*r.Own] != 0
}

// kept is the length of what replay keeps of an observation.
func (r Rows) kept(network *nn.MLP) int {
	if r.Taken {
		return r.Inputs()
	}
	return r.dim(network)
}

// dim is the length of the network's observations, actions how many it values.
func (r Rows) dim(network *nn.MLP) int {
	if r.Count == 0 {
		return network.Inputs()
	}
	return r.Dim()
}

func (r Rows) actions(network *nn.MLP) int {
	if r.Count == 0 {
		return network.Outputs()
	}
	return r.Count
}

// check holds the network, and what is configured, against the division.
func (r Rows) check(c *Config, network *nn.MLP) error {
	switch {
	case r.Count == 0:
		return nil
	case r.Own < 1 || network.Inputs() != r.Inputs() || network.Outputs() != 1:
		return fmt.Errorf("the network maps %d inputs to %d outputs, rows of %d are to be mapped to 1", network.Inputs(), network.Outputs(), r.Inputs())
	case r.Taken && !c.DifferenceRewards:
		return fmt.Errorf("only the rows taken are kept; want difference rewards")
	case c.AdviceMargin != 0:
		return fmt.Errorf("observations of rows advise no action; want an advice margin of 0, not %v", c.AdviceMargin)
	}
	return nil
}

// random is any action that is open, each as likely where all are.
func (r Rows) random(rng *rand.Rand, observation []float32, actions int) int32 {
	a := rng.Int32N(int32(actions))
	if r.Count == 0 {
		return a
	}
	for range actions {
		if r.Open(observation, int(a)) {
			break
		}
		a = (a + 1) % int32(actions)
	}
	return a
}

// values writes the value of each action into dst, −∞ where it is not open. The
// row is memory for Inputs numbers.
func (r Rows) values(dst []float32, network *nn.MLP, observation, row, scratch []float32) {
	if r.Count == 0 {
		network.Forward(dst, observation, scratch)
		return
	}
	for a := range dst {
		if !r.Open(observation, a) {
			dst[a] = float32(math.Inf(-1))
			continue
		}
		r.Row(row, observation, a)
		network.Forward(dst[a:a+1], row, scratch)
	}
}
