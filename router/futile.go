package router

import (
	"errors"
	"math"
	"slices"
	"time"

	"gearshift/router/fleet"
)

// futile remembers what there was no room for, so that the like of it is not tried
// again: room only shrinks during a pass.
type futile[T any] []*Waiter[T]

// like is one of the same task and choice of variants, or replica, as x that asked for no more, or
// nil. There is no room for x if there is one. Where no place was free, what it asked of
// one is nothing to the matter; a lease that ends meanwhile lets none go ahead of it.
func (f futile[T]) like(t *fleet.Table, x *Waiter[T]) *Waiter[T] {
	r := x.Request
	for _, y := range f {
		o := y.Request
		if x.Variant != y.Variant || r.Only != o.Only || r.Variants != o.Variants || r.Holding != o.Holding || r.Task != o.Task || r.MinQuality < o.MinQuality || !slices.Equal(r.Without, o.Without) {
			continue
		}
		if errors.Is(y.Err, ErrSaturated) || r.PromptTokens >= o.PromptTokens && r.Answers >= o.Answers && !looser(r.Deadline, o.Deadline) && sooner(&t.Tasks[r.Task], r, o) {
			return y
		}
	}
	return nil
}

// looser reports whether deadline a gives more time than b; zero is the task's own, which
// is taken to be equal to none but itself.
func looser(a, b time.Duration) bool { return a != b && (a == 0 || b == 0 || a > b) }

// sooner reports whether request a of the task has no more time than b, to its first token
// and to its end.
func sooner(task *fleet.Task, a, b *fleet.Request) bool {
	of, than := task.Deadlines(a), task.Deadlines(b)
	return due(a, of.FirstToken) <= due(b, than.FirstToken) && due(a, of.Total) <= due(b, than.Total)
}

// due is when the deadline of the request is; never without one.
func due(r *fleet.Request, deadline time.Duration) time.Duration {
	if deadline == 0 || deadline > math.MaxInt64-r.Arrival {
		return math.MaxInt64
	}
	return r.Arrival + deadline
}
