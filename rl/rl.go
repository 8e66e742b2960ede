// Package rl trains a policy by deep Q-learning in a simulator: the training
// loop, the replay buffer, the schedules, and the interfaces of the two things
// that the loop joins, an environment and a learner. It knows neither the
// simulator nor the library that computes gradients.
//
// A decision's reward, the utility of the request that it placed, is known only
// when that request completes. The loop therefore holds each transition until
// its own completion arrives, and only then stores it for replay (LBE-11).
package rl

import (
	"math/rand/v2"
	"time"

	"gearshift/router/nn"
)

// Env is an environment of discrete actions. The same seed and the same actions
// give the same observations and completions: a resumed run replays the present
// episode to find its way back. Only one goroutine at a time uses an Env, but those
// of a run are used side by side, and while its learner learns: they share nothing.
type Env interface {
	// Reset begins an episode and returns its first observation, which is
	// valid until the next call.
	Reset(seed uint64) []float32
	// Step takes the decision that the last observation asks for. It is not
	// called again after an episode's end without a Reset.
	Step(action int) Step
}

// Step is what an environment answers to a decision. Its slices are valid until
// the environment's next call.
type Step struct {
	// Observation asks for the next decision. At an episode's end it is the
	// last one, still encoded: a truncated episode bootstraps from it.
	Observation []float32
	// Terminated: nothing follows, by the nature of the task. Truncated: the
	// episode is cut here although more would follow.
	Terminated, Truncated bool
	// Elapsed is the time between this decision and the next.
	Elapsed time.Duration
	// Completed lists, in order, what ended between this decision and the next.
	Completed []Completion
}

// Completion is the outcome of one decision of the episode, counted from 0 at
// Reset. Each decision completes at most once.
type Completion struct {
	Decision int
	Utility  float64
	// Stratum, below [Strata], numbers the conditions that the decision met and
	// no action can influence, such as a band of the true arrival rate. What a
	// stratum earns on average says nothing about actions, so it may be
	// subtracted from the rewards: the best policy stays the best, and the
	// values to learn are small and alike under any load.
	Stratum int
}

// Strata is how many strata there may be.
const Strata = 64

// Learner holds an online and a target network over the same observations and
// actions. Only one goroutine uses a Learner.
type Learner interface {
	// Act is the online network: its live weights, to be read only, which the
	// next Learn changes in place. The pointer stays the same for the
	// learner's life.
	Act() *nn.MLP
	// Learn takes one gradient step on b, which it does not keep, and fills in
	// b's TDErrors.
	Learn(b *Batch) (Stats, error)
	// MoveTarget moves the target network towards the online network by a share
	// of their difference; 1 copies it.
	MoveTarget(share float64)
	// SetLearningRate holds from the next Learn on.
	SetLearningRate(rate float64)
	// MarshalBinary encodes all that later steps depend on: both networks, the
	// optimiser's moments and its step count. UnmarshalBinary restores them
	// into a learner of the same shape; on error the learner is unchanged.
	MarshalBinary() ([]byte, error)
	UnmarshalBinary(data []byte) error
}

// Batch is a minibatch of n transitions in row-major order. Inputs is the length of
// an observation: the network's inputs or, where there are rows, their Dim.
type Batch struct {
	Observations []float32 // (n, inputs): s
	Next         []float32 // (n, inputs): s'
	Actions      []int32   // (n): a, the index of an output
	Rewards      []float32 // (n): the utility, less the mean of its stratum where rewards are centred
	Discounts    []float32 // (n): γ or exp(−Δt/τ); 0 where s' is terminal
	// Weights (n) multiply each transition's part in the loss, which is summed
	// over the batch and divided by n whatever they are. Nil: all are 1.
	Weights []float32

	TDErrors []float32 // (n): |y − Q(s, a)| before the step, unweighted; Learn's answer

	places []int32 // (n): where in replay each transition lies
}

// NewBatch allocates a batch of n transitions, without weights.
func NewBatch(n, inputs int) *Batch {
	return &Batch{
		Observations: make([]float32, n*inputs),
		Next:         make([]float32, n*inputs),
		Actions:      make([]int32, n),
		Rewards:      make([]float32, n),
		Discounts:    make([]float32, n),
		TDErrors:     make([]float32, n),
		places:       make([]int32, n),
	}
}

// Len is the number of transitions in the batch.
func (b *Batch) Len() int { return len(b.Actions) }

// Stats describes one gradient step: means over its minibatch.
type Stats struct {
	Loss         float64 // the Huber loss, weighted
	TDError      float64 // |y − Q(s, a)|
	GradientNorm float64 // the global norm, before clipping
}

// Stream names one of a run's random sources. Each draws from its own
// generator, so that one more draw from one never shifts another.
type Stream uint64

// The random sources of a run.
const (
	Exploration Stream = iota + 1 // ε-greedy choices
	Sampling                      // minibatches
	Weights                       // initial weights
)

// PCG is the stream's generator for a run's seed.
func (s Stream) PCG(seed uint64) *rand.PCG {
	return rand.NewPCG(seed, uint64(s)*0x9e3779b97f4a7c15)
}
