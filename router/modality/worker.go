package modality

import (
	"math"
	"slices"
)

// Worker runs one job at a time. Jobs wait in a buffer, which the policy plans again each time that the worker
// is free, so that a plan always knows every job there is (MOSEL-27). The first job of the plan is committed:
// it leaves the buffer and is not planned again. The worker is told what batches really took, and corrects
// its estimates (MOSEL-15). It reads no clock, and is not safe for concurrent use.
type Worker struct {
	// Fixed has plans keep to the table, whatever batches really take.
	Fixed bool
	// Running is what it runs now, and Last what was begun last; nil if there is nothing.
	Running, Last *Commit

	policy   Policy
	table    *Table
	waiting  []*Entry
	scaled   []Job // those that wait, with deadlines in the table's time
	plan     Plan
	arrivals estimate
	batches  []int
	slowness float64
	off      deviation // of what batches take from the slowness, relative to it
	free     float64   // when it is expected to be free
	shares   shares
}

// Entry is a job that waits for a worker of a pool, or runs.
type Entry struct {
	Job
	// Tenant names who shares workers fairly with others.
	Tenant string
	Worker int
	Of     any // the caller's
}

// Commit is a job that a worker runs, and its batches: how many of its requests each option answers. The
// options run one after the other, in order.
type Commit struct {
	*Entry
	Batches []int   // by option
	Quality float64 // mean over its requests
	Expect  float64 // how long it will take
	Waiting int     // others that wait for the worker
}

// Answered takes some of the job's requests out, which have been answered with that quality. What is left
// has to make up for them.
func (x *Entry) Answered(n int, quality float64) {
	all, now := float64(x.Size), float64(n)
	if x.Size -= n; x.Size > 0 {
		x.MinQuality = max(0, (x.MinQuality*all-quality*now)/(all-now))
	}
}

// NewWorker makes an idle worker, whose policy plans with the table.
func NewWorker(t *Table, p Policy) *Worker { return &Worker{policy: p, table: t, slowness: 1} }

// add lets a job wait that comes now, and that [Table.Check] has passed.
func (w *Worker) add(x *Entry, now float64) {
	w.adopt(x)
	j := &x.Job
	first, ok := w.table.fastest(j)
	if !ok {
		return // the next plan drops it
	}
	front := w.table.front(j)
	fastest, best := front[first], front[len(front)-1]
	w.arrivals.add(now, come{float64(j.Size), max(0, j.Deadline-now), fastest.Cost, best.Cost, best.Value - fastest.Value})
}

// adopt lets a job wait that has come to another worker. It is not counted as an arrival: what comes to this
// worker is what is added.
func (w *Worker) adopt(x *Entry) {
	w.waiting = append(w.waiting, x)
	w.shares.on = w.shares.on || x.Tenant != ""
}

// Waiting is how many jobs wait.
func (w *Worker) Waiting() int { return len(w.waiting) }

// Slowness is how many times as long batches take as the table says.
func (w *Worker) Slowness() float64 { return w.slowness }

// Table is that of the estimates.
func (w *Worker) Table() *Table { return w.table }

// Plan plans what waits for the worker, which is free now, and returns the plan and its jobs, with times in
// the table's unit from now on. The caller may change the first step of the plan, or drop its job, before it
// calls [Pool.Commit].
func (w *Worker) Plan(now float64) (*Plan, []Job) {
	w.replan(now, now)
	return &w.plan, w.scaled
}

// commit commits the first job of the plan that was just made; nil if there is none. Jobs that the plan drops
// leave the buffer and are returned too.
func (w *Worker) commit() (c *Commit, dropped []*Entry) {
	gone := w.scaled // of which size 0 marks what leaves
	for _, i := range w.plan.Dropped {
		dropped = append(dropped, w.waiting[i])
		gone[i].Size = 0
	}
	if len(w.plan.Steps) > 0 {
		s := w.plan.Steps[0]
		quality, expect := w.step(s)
		c = &Commit{Entry: w.waiting[s.Job], Batches: slices.Clone(w.batches), Quality: quality, Expect: expect}
		gone[s.Job].Size = 0
	}
	kept := w.waiting[:0]
	for i, x := range w.waiting {
		if gone[i].Size > 0 {
			kept = append(kept, x)
		}
	}
	clear(w.waiting[len(kept):])
	w.waiting = kept
	return c, dropped
}

// replan plans what waits, and more that would, for a worker that is free at some time from now on.
func (w *Worker) replan(now, free float64, more ...Job) {
	w.scaled = w.scaled[:0]
	for _, x := range w.waiting {
		w.scaled = append(w.scaled, x.Job)
	}
	w.scaled = append(w.scaled, more...)
	for i := range w.scaled {
		w.scaled[i].Deadline = (w.scaled[i].Deadline - now) / w.slowness
	}
	if p, ok := w.policy.(Foreseeing); ok {
		a := w.arrivals.at(now).scaled(w.slowness)
		a.Spread = w.off.spread()
		p.Foresee(a)
	}
	w.policy.Plan((free-now)/w.slowness, w.scaled, &w.plan)
}

// step returns what the plan does with a job, whose batches it leaves in w.batches.
func (w *Worker) step(s Step) (quality, expect float64) {
	j := &w.scaled[s.Job]
	t := w.table.of(j)
	p := t.Front(j.Size)[s.Strategy]
	w.batches = t.Batches(j.Size, s.Strategy, w.batches)
	return p.Value / float64(j.Size), p.Cost * w.slowness
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
func (w *Worker) Preview(now, free float64, jobs ...Job) []Previewed {
	w.replan(now, free, jobs...)
	n := len(w.waiting)
	list := make([]Previewed, len(jobs))
	for _, s := range w.plan.Steps {
		if s.Job >= n {
			quality, _ := w.step(s)
			list[s.Job-n] = Previewed{slices.Clone(w.batches), quality, now + s.Finish*w.slowness, true}
		}
	}
	return list
}

// Backlog is how long the jobs that wait take at least: each by the fastest strategy that
// meets its floor.
func (w *Worker) Backlog() (sum float64) {
	for _, x := range w.waiting {
		if first, ok := w.table.fastest(&x.Job); ok {
			sum += w.table.front(&x.Job)[first].Cost
		}
	}
	return sum * w.slowness
}

// Expected returns how long the worker is expected to be busy.
func (w *Worker) Expected(now float64) float64 { return max(0, w.free-now) + w.Backlog() }

// learning is the weight of the last batch in the estimate of the slowness.
const learning = 0.1

// Ran reports how long a batch of an option took.
func (w *Worker) Ran(option, batch int, took float64) {
	if took <= 0 {
		return
	}
	ratio := took / w.table.options[option].Latency[batch-1]
	w.off.add(ratio/w.slowness - 1)
	if !w.Fixed {
		w.slowness += learning * (ratio - w.slowness)
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
