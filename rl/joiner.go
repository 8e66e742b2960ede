package rl

import "fmt"

// joiner holds the transitions of the present episode until the utility that
// each earned is known. A transition is begun with its observation, ended with
// the next one, and leaves with its completion.
type joiner struct {
	inputs int

	places []int32 // by decision: where its transition is held, or gone
	free   []int32 // places without a transition

	observations []float32 // (places, inputs)
	following    []float32 // (places, inputs)
	actions      []int32
	discounts    []float32
}

// gone marks a decision whose transition has left.
const gone = -1

func newJoiner(inputs int) *joiner { return &joiner{inputs: inputs} }

// reset begins an episode. What is still held never learns its outcome and is
// dropped.
func (j *joiner) reset() {
	for _, p := range j.places {
		if p != gone {
			j.free = append(j.free, p)
		}
	}
	j.places = j.places[:0]
}

// begin holds the episode's next decision.
func (j *joiner) begin(observation []float32, action int32) {
	if len(j.free) == 0 {
		j.grow()
	}
	p := j.free[len(j.free)-1]
	j.free = j.free[:len(j.free)-1]
	j.places = append(j.places, p)
	copy(j.held(j.observations, p), observation)
	j.actions[p] = action
}

// end adds what followed the latest decision: the next observation, and how much
// of its value counts, 0 if the episode terminated.
func (j *joiner) end(next []float32, discount float32) {
	p := j.places[len(j.places)-1]
	copy(j.held(j.following, p), next)
	j.discounts[p] = discount
}

// complete moves the transition of a completed decision to replay; a nil replay
// drops it.
func (j *joiner) complete(c Completion, replay *Replay) error {
	if c.Decision < 0 || c.Decision >= len(j.places) {
		return fmt.Errorf("cannot join completion: decision %d of %d", c.Decision, len(j.places))
	}
	p := j.places[c.Decision]
	if p == gone {
		return fmt.Errorf("cannot join completion: decision %d completed twice", c.Decision)
	}
	if c.Stratum < 0 || c.Stratum >= Strata {
		return fmt.Errorf("cannot join completion: stratum %d of %d", c.Stratum, Strata)
	}
	if replay != nil {
		replay.Add(j.held(j.observations, p), j.actions[p], c, j.discounts[p], j.held(j.following, p))
	}
	j.places[c.Decision] = gone
	j.free = append(j.free, p)
	return nil
}

// held is the part of a buffer that belongs to place p.
func (j *joiner) held(buffer []float32, p int32) []float32 {
	return buffer[int(p)*j.inputs : (int(p)+1)*j.inputs]
}

// grow doubles the places.
func (j *joiner) grow() {
	have := len(j.actions)
	more := max(64, have)
	j.observations = append(j.observations, make([]float32, more*j.inputs)...)
	j.following = append(j.following, make([]float32, more*j.inputs)...)
	j.actions = append(j.actions, make([]int32, more)...)
	j.discounts = append(j.discounts, make([]float32, more)...)
	for p := range more {
		j.free = append(j.free, int32(have+p))
	}
}
