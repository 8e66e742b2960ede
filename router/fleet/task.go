// Package fleet holds the facts that every decision rests on: tasks, variants,
// hosts, replicas, the requests in flight and the counters they move. It knows
// no HTTP and reads no clock: time is an argument, counted as a
// [time.Duration] from an epoch of the caller's choice.
package fleet

import (
	"slices"
	"time"
)

// Task is a class of requests: a deadline, how utility decays past it, a
// weight, and a row of the quality matrix.
type Task struct {
	Name string
	// Deadline is the mean time allowed per output token, queueing included
	// (finish − arrival divided by output tokens; LBE-4).
	Deadline time.Duration
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

// Utility is weight × decay(latency) × quality[variant] (Eq. 1). Latency is
// per output token. A deadline of zero stands for the task's own.
func (t *Task) Utility(variant int, latency, deadline time.Duration) float64 {
	return t.Weight * t.factor(latency, t.Allowed(deadline)) * t.Quality[variant]
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

// Allowed is the deadline that holds for a request of the task: its own, or the
// task's if it has none.
func (t *Task) Allowed(deadline time.Duration) time.Duration {
	if deadline <= 0 {
		return t.Deadline
	}
	return deadline
}

// Last is the latency per output token up to which something is left of the utility:
// the deadline, or what a decay with a method Last(deadline) makes of it.
func (t *Task) Last(deadline time.Duration) time.Duration {
	allowed := t.Allowed(deadline)
	if soft, ok := t.Decay.(interface {
		Last(deadline float64) float64
	}); ok {
		return time.Duration(soft.Last(milliseconds(allowed)) * float64(time.Millisecond))
	}
	return allowed
}

func (t *Task) factor(latency, deadline time.Duration) float64 {
	decay := t.Decay
	if decay == nil {
		decay = Hard{}
	}
	return decay.Factor(milliseconds(latency), milliseconds(deadline))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
