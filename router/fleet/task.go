// Package fleet holds the facts that every decision rests on: tasks, variants,
// hosts, replicas, the requests in flight and the counters they move. It knows
// no HTTP and reads no clock: time is an argument, counted as a
// [time.Duration] from an epoch of the caller's choice.
package fleet

import (
	"slices"
	"time"
)

// Task is a class of requests: one or more deadlines, how utility decays past them, a
// weight, and a row of the quality matrix.
type Task struct {
	Name string
	// Kind is the kind of its requests' input, for profiles that have times by it. Empty
	// stands for the only one there is.
	Kind string
	// Deadline is the mean time allowed per output token, queueing included
	// (finish − arrival divided by output tokens; LBE-4). Zero is none: then there is
	// another, and a Pace.
	Deadline time.Duration
	// FirstToken is the time allowed from arrival to the first token, and Total that to
	// the end of the answer. Zero is none.
	FirstToken, Total time.Duration
	// Pace is the time per output token that forecasts and rules plan with where there
	// is no Deadline. The utility does not depend on it.
	Pace time.Duration
	// Decay says what is left of the reward past the deadline. Nil is [Hard].
	Decay Decay
	// Weight multiplies the utility, for instance for paid users.
	Weight float64
	// Quality is the utility of an answer in time, by variant index: the
	// task's row of the matrix A in Eq. 1 of the paper.
	Quality []float64
	// Without has a bit for each variant that does not answer the task, by index; their
	// Quality is 0. Zero is none: all answer it.
	Without uint64
}

// Peak is the utility of the best answer in time.
func (t *Task) Peak() float64 { return t.Weight * slices.Max(t.Quality) }

// Shortfall is by which share of its peak an answer of that utility falls short: 0 at the
// peak, 1 where nothing was earned.
func (t *Task) Shortfall(utility float64) float32 {
	peak := t.Peak()
	if peak <= 0 {
		return 0
	}
	return float32(max(0, 1-utility/peak))
}

// Allowed is the time per output token to plan with for a request of the task: its own
// deadline, or the task's if it has none, or the task's pace.
func (t *Task) Allowed(deadline time.Duration) time.Duration {
	switch {
	case deadline > 0:
		return deadline
	case t.Deadline > 0:
		return t.Deadline
	}
	return t.Pace
}

// laster is a decay that knows the latency up to which something is left.
type laster interface {
	Last(deadline float64) float64
}

// Last is the latency per output token up to which something is left of the utility:
// the deadline, or what a decay with a method Last(deadline) makes of it.
func (t *Task) Last(deadline time.Duration) time.Duration {
	allowed := t.Allowed(deadline)
	if soft, ok := t.Decay.(laster); ok {
		return time.Duration(soft.Last(Milliseconds(allowed)) * float64(time.Millisecond))
	}
	return allowed
}

// factor is what the decay leaves, of times in milliseconds.
func (t *Task) factor(latency, deadline float64) float64 {
	decay := t.Decay
	if decay == nil {
		decay = Hard{}
	}
	return decay.Factor(latency, deadline)
}

// Milliseconds returns a time in milliseconds, the unit of profiles and reports.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
