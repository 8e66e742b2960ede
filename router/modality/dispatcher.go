package modality

import (
	"math"
	"slices"
)

// Dispatcher decides what a worker runs next. Jobs wait in a buffer, which the policy plans
// anew each time that the worker is free, so that a plan always knows every job there is
// (MOSEL-27). The first job of the plan is committed: it leaves the buffer and is not
// planned again. It is told what batches really took, and corrects its estimates
// (MOSEL-15). It reads no clock, and is not safe for concurrent use.
type Dispatcher struct {
	// Fixed has the dispatcher keep to the table, whatever batches really take.
	Fixed bool

	policy   Policy
	table    *Table
	waiting  []Job
	scaled   []Job // those that wait, with deadlines in the table's time
	plan     Plan
	arrivals estimate
	batches  []int
	dropped  []Job
	slowness float64
	off      deviation // of what batches take from the slowness, relative to it
}

// Committed is a job and its batches: how many of its requests each option answers. The
// options run one after the other, in order.
type Committed struct {
	Job     Job
	Batches []int   // by option; valid until the next call of Next
	Quality float64 // mean over its requests
	Expect  float64 // how long it will take
}

// NewDispatcher makes a dispatcher of the policy, which plans with the table.
func NewDispatcher(t *Table, p Policy) *Dispatcher {
	return &Dispatcher{policy: p, table: t, slowness: 1}
}

// Add lets the job, which [Table.Check] has passed, and which comes now, wait.
func (d *Dispatcher) Add(j Job, now float64) {
	d.waiting = append(d.waiting, j)
	first, ok := d.table.fastest(&j)
	if !ok {
		return // the next plan drops it
	}
	front := d.table.front(&j)
	fastest, best := front[first], front[len(front)-1]
	d.arrivals.add(now, come{float64(j.Size), max(0, j.Deadline-now), fastest.Cost, best.Cost, best.Value - fastest.Value})
}

// Adopt lets a job wait that has come to another worker. It is not counted as an arrival: what comes
// to this worker is what is added.
func (d *Dispatcher) Adopt(j Job) { d.waiting = append(d.waiting, j) }

// Table is that of the estimates.
func (d *Dispatcher) Table() *Table { return d.table }

// Waiting is how many jobs wait.
func (d *Dispatcher) Waiting() int { return len(d.waiting) }

// Slowness is how many times as long batches take as the table says.
func (d *Dispatcher) Slowness() float64 { return d.slowness }

// Next plans what waits for a worker that is free now, and commits the first job of the
// plan; false if there is none. Jobs that the plan drops leave the buffer and are returned
// too, valid until the next call.
func (d *Dispatcher) Next(now float64) (next Committed, dropped []Job, ok bool) {
	if len(d.waiting) == 0 {
		return Committed{}, nil, false
	}
	d.Plan(now)
	return d.Commit()
}

// Plan plans what waits, as the first half of [Dispatcher.Next], and returns the plan and
// its jobs, with times in the table's unit from now on. The caller may change the first step
// of the plan, or drop its job, before it calls Commit.
func (d *Dispatcher) Plan(now float64) (*Plan, []Job) {
	d.replan(now, now)
	return &d.plan, d.scaled
}

// Commit commits the first job of the plan that was just made, as the second half of
// [Dispatcher.Next].
func (d *Dispatcher) Commit() (next Committed, dropped []Job, ok bool) {
	d.dropped = d.dropped[:0]
	gone := d.scaled // whose IDs are not needed any more: size 0 marks what leaves
	for _, i := range d.plan.Dropped {
		d.dropped = append(d.dropped, d.waiting[i])
		gone[i].Size = 0
	}
	if ok = len(d.plan.Steps) > 0; ok {
		s := d.plan.Steps[0]
		next = d.step(s)
		gone[s.Job].Size = 0
	}
	kept := d.waiting[:0]
	for i, j := range d.waiting {
		if gone[i].Size > 0 {
			kept = append(kept, j)
		}
	}
	d.waiting = kept
	return next, d.dropped, ok
}

// replan plans what waits, for a worker that is free at some time from now on.
func (d *Dispatcher) replan(now, free float64) {
	d.scaled = append(d.scaled[:0], d.waiting...)
	for i := range d.scaled {
		d.scaled[i].Deadline = (d.scaled[i].Deadline - now) / d.slowness
	}
	if p, ok := d.policy.(Foreseeing); ok {
		a := d.arrivals.at(now).scaled(d.slowness)
		a.Spread = d.off.spread()
		p.Foresee(a)
	}
	d.policy.Plan((free-now)/d.slowness, d.scaled, &d.plan)
}

// step is what the plan does with a job that waits.
func (d *Dispatcher) step(s Step) Committed {
	j := d.waiting[s.Job]
	t := d.table.of(&j)
	p := t.Front(j.Size)[s.Strategy]
	d.batches = t.Batches(j.Size, s.Strategy, d.batches)
	return Committed{Job: j, Batches: d.batches, Quality: p.Value / float64(j.Size), Expect: p.Cost * d.slowness}
}

// Previewed is what a plan would do with a job.
type Previewed struct {
	Batches []int // by option
	Quality float64
	Finish  float64
	Kept    bool // else it would be dropped
}

// Preview returns what the plan would do with the jobs if they came now, for a worker that is
// free at some time from now on. It changes nothing.
func (d *Dispatcher) Preview(now, free float64, jobs ...Job) []Previewed {
	n := len(d.waiting)
	d.waiting = append(d.waiting, jobs...)
	d.replan(now, free)
	list := make([]Previewed, len(jobs))
	for _, s := range d.plan.Steps {
		if s.Job >= n {
			c := d.step(s)
			list[s.Job-n] = Previewed{slices.Clone(c.Batches), c.Quality, now + s.Finish*d.slowness, true}
		}
	}
	d.waiting = d.waiting[:n]
	return list
}

// Remove takes the job of the ID out of those that wait; false if none does.
func (d *Dispatcher) Remove(id string) bool {
	for i := range d.waiting {
		if d.waiting[i].ID == id {
			d.waiting = append(d.waiting[:i], d.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// Backlog is how long the jobs that wait take at least: each by the fastest strategy that
// meets its floor.
func (d *Dispatcher) Backlog() (sum float64) {
	for i := range d.waiting {
		j := &d.waiting[i]
		if first, ok := d.table.fastest(j); ok {
			sum += d.table.front(j)[first].Cost
		}
	}
	return sum * d.slowness
}

// learning is the weight of the last batch in the estimate of the slowness.
const learning = 0.1

// Ran reports how long a batch of an option took.
func (d *Dispatcher) Ran(option, batch int, took float64) {
	if took <= 0 {
		return
	}
	ratio := took / d.table.options[option].Latency[batch-1]
	d.off.add(ratio/d.slowness - 1)
	if !d.Fixed {
		d.slowness += learning * (ratio - d.slowness)
	}
}

// deviation is the mean and the spread of a quantity, in which what is older counts for less. While
// all of it is off by the same, as where the estimate is wrong, the spread is 0.
type deviation struct{ weight, mean, square float64 }

func (d *deviation) add(x float64) {
	d.weight += learning * (1 - d.weight)
	d.mean += learning * (x - d.mean)
	d.square += learning * (x*x - d.square)
}

// spread is the standard deviation.
func (d *deviation) spread() float64 {
	if d.weight == 0 {
		return 0
	}
	mean := d.mean / d.weight
	return math.Sqrt(max(0, d.square/d.weight-mean*mean))
}
