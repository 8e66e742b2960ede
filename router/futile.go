package router

import (
	"errors"
	"math"
	"slices"
	"time"

	"gearshift/router/fleet"
)

// futile holds the requests of a pass for which there was no room. Similar ones need not be
// tried: room only shrinks during a pass. That keeps a pass over a long queue cheap.
type futile[T any] []*Waiter[T]

// like returns a failed request with the same task and the same choice of variants or
// replica as x that asked for no more than x, or nil. If there is one, there is no room for
// x either. Where no place was free at all, how much it asked for does not matter. A lease
// that ends during the pass must not let a later request go ahead of an earlier one.
func (f futile[T]) like(t *fleet.Table, x *Waiter[T]) *Waiter[T] {
	r := x.Request
	for _, y := range f {
		o := y.Request
		if x.Variant != y.Variant || r.Held && !o.Held || r.Only != o.Only || r.Variants != o.Variants || r.Holding != o.Holding || r.Task != o.Task || wider(t, r, o) || !slices.Equal(r.Without, o.Without) {
			continue
		}
		if errors.Is(y.Err, ErrSaturated) || errors.Is(y.Err, ErrAsleep) || r.PromptTokens >= o.PromptTokens && r.Answers >= o.Answers && !looser(r.Deadline, o.Deadline) && sooner(&t.Tasks[r.Task], r, o) {
			return y
		}
	}
	return nil
}

// wider reports whether the quality floor of request a leaves it a variant that the floor of
// b, which is of the same task and may have the same variants, does not leave to b.
func wider(t *fleet.Table, a, b *fleet.Request) bool {
	if a.MinQuality <= 0 || !a.Predicted.Known && !b.Predicted.Known {
		return a.MinQuality < b.MinQuality
	}
	for v := range t.Variants {
		if t.Reaches(a, v) && !t.Reaches(b, v) {
			return true
		}
	}
	return false
}

// looser reports whether deadline a may give more time than b. Zero is the task's own
// deadline, which is compared with no other.
func looser(a, b time.Duration) bool { return a != b && (a == 0 || b == 0 || a > b) }

// sooner reports whether request a of the task has no more time than b, to its first token
// and to its end.
func sooner(task *fleet.Task, a, b *fleet.Request) bool {
	of, than := task.Deadlines(a), task.Deadlines(b)
	return due(a, of.FirstToken) <= due(b, than.FirstToken) && due(a, of.Total) <= due(b, than.Total)
}

// due returns when the deadline of the request is; math.MaxInt64 without one.
func due(r *fleet.Request, deadline time.Duration) time.Duration {
	if deadline == 0 || deadline > math.MaxInt64-r.Arrival {
		return math.MaxInt64
	}
	return r.Arrival + deadline
}
