package modality

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gearshift/router/solve"
)

// Mode says which deadlines a plan keeps.
type Mode string

const (
	// PrefixSafe keeps the deadline of every job of the plan, and is the default.
	PrefixSafe Mode = "prefix-safe"
	// Literal is the paper's program as written (MOSEL-28): jobs start with their best
	// strategy; for each one that would be late, in order, strategies are chosen again for
	// it and all before it, by its deadline alone. A job that is made late thereby stays.
	Literal Mode = "literal"
)

// Job is several requests that are to be answered by a deadline, with a floor for their
// mean quality.
type Job struct {
	ID         string  `json:"id"`
	Size       int     `json:"size"`
	MinQuality float64 `json:"min_quality"`
	Deadline   float64 `json:"deadline"` // absolute
	// Allowed has a bit for each option that may answer the job's requests, by its index in
	// the table; 0 is all of them. A request without an image is answered by no option that
	// needs one.
	Allowed uint64 `json:"-"`
}

// Step is what a plan does with a job.
type Step struct {
	Job      int // index among those planned
	Strategy int // index in the front of the job's size, in the table [Table.Within] what it allows
	Finish   float64
}

// Plan is the jobs that are kept, in the order in which they run, and those that are
// dropped, as indices.
type Plan struct {
	Steps     []Step
	Dropped   []int
	Objective float64 // sum of the qualities of all requests kept
	// Gap is by how much the objective of the best plan may be higher; 0 if this is the best.
	Gap float64
}

// Planner is the policy that plans queues exactly; the paper calls it optimized. It keeps
// its memory from one plan to the next, and allocates only where a queue is longer than
// those before.
type Planner struct {
	queue
	mode   Mode
	ahead  ahead
	chain  solve.Chain
	items  []solve.Item
	first  []int // by item, the index of its fastest strategy in its size's front
	kept   []int
	picks  []int
	chosen []int // literal: the strategies so far, by item
}

// NewPlanner makes a planner of the table's strategies.
func NewPlanner(t *Table, mode Mode) (*Planner, error) {
	if mode != PrefixSafe && mode != Literal {
		return nil, fmt.Errorf("cannot make planner: mode %q; want %q or %q", mode, PrefixSafe, Literal)
	}
	return &Planner{queue: queue{table: t}, mode: mode}, nil
}

// Limit bounds the states that are tried after a job; see [solve.Chain].
func (p *Planner) Limit(states int) { p.chain.Limit = states }

// CheckSize reports what is wrong with a job's size, whatever sizes the table has.
func (t *Table) CheckSize(j *Job) error {
	t = t.of(j)
	switch {
	case j.Size < 1:
		return fmt.Errorf("job %q: size: %d must be at least 1", j.ID, j.Size)
	case j.Size > t.Longest():
		return fmt.Errorf("job %q: size: %d is above the longest batch of any option, %d; split the job", j.ID, j.Size, t.Longest())
	}
	return nil
}

// Check reports what makes a plan of the job impossible at any time.
func (t *Table) Check(j *Job) error {
	if outside := j.Allowed &^ t.all(); outside != 0 {
		return fmt.Errorf("job %q: allowed: %#x has bits of options that there are not", j.ID, j.Allowed)
	}
	t = t.of(j)
	if err := t.CheckSize(j); err != nil {
		return err
	}
	switch {
	case j.Size > t.Sizes():
		return fmt.Errorf("job %q: size: %d is above the table's largest, %d", j.ID, j.Size, t.Sizes())
	case !(math.Abs(j.Deadline) <= Largest):
		return fmt.Errorf("job %q: deadline: %g must be a number from %g to %g", j.ID, j.Deadline, -Largest, Largest)
	case !(j.MinQuality <= t.best()+solve.Tolerance):
		return fmt.Errorf("job %q: min_quality: %g is above every option; the best has %g", j.ID, j.MinQuality, t.best())
	}
	return nil
}

// best is the highest quality of any option that is allowed.
func (t *Table) best() (quality float64) {
	for i := range t.options {
		if t.allows(i) {
			quality = max(quality, t.options[i].Quality)
		}
	}
	return quality
}

// fastest is the fastest strategy that meets the job's floor; false if none does, as where
// the options that are good enough have no batch of its size.
func (t *Table) fastest(j *Job) (int, bool) {
	size := float64(j.Size)
	// The tolerance is of the mean; the front has sums.
	return t.front(j).At((j.MinQuality-solve.Tolerance)*size + solve.Tolerance)
}

// Plan plans the jobs, which [Table.Check] has passed, from the time on at which the
// worker is free. Jobs run in order of deadline, equal ones as given. A job is dropped only
// where no plan that keeps those kept before it can keep it. The result is valid until the
// next call.
func (p *Planner) Plan(free float64, jobs []Job, plan *Plan) {
	p.begin(free, jobs, plan)
	p.items, p.first, p.kept = p.items[:0], p.first[:0], p.kept[:0]
	if p.mode == Literal {
		p.literal(jobs, plan)
	} else {
		p.prefixSafe(jobs, plan)
	}
	plan.Gap = p.chain.Gap()
	var at float64
	for k, i := range p.kept {
		if i >= 0 {
			at = p.keep(i, &jobs[i], p.first[k]+p.picks[k], at, plan)
		}
	}
}

// byDeadline sorts indices of jobs; equal deadlines stay as they are.
func byDeadline(order []int, jobs []Job) {
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(jobs[a].Deadline, jobs[b].Deadline) })
}

// add lets the job be one of the items, with the strategies that meet its floor; false if
// none does.
func (p *Planner) add(i int, j *Job, budget float64) bool {
	first, ok := p.table.fastest(j)
	if !ok {
		return false
	}
	p.items = append(p.items, solve.Item{Front: p.table.front(j)[first:], Budget: budget})
	p.first, p.kept = append(p.first, first), append(p.kept, i)
	return true
}

// drop takes back the last one.
func (p *Planner) drop(plan *Plan) {
	last := len(p.kept) - 1
	plan.Dropped = append(plan.Dropped, p.kept[last])
	p.items, p.first, p.kept = p.items[:last], p.first[:last], p.kept[:last]
}

// prefixSafe keeps every job that can be kept with those kept before it, which is to be
// seen by everybody's fastest strategy, and then solves for the most quality, with the work
// that is expected to come among the jobs if there is any.
func (p *Planner) prefixSafe(jobs []Job, plan *Plan) {
	var fastest float64
	for _, i := range p.order {
		budget := p.budget(&jobs[i])
		if !p.add(i, &jobs[i], budget) {
			plan.Dropped = append(plan.Dropped, i)
			continue
		}
		cost := p.items[len(p.items)-1].Front[0].Cost
		if fastest+cost > budget+solve.Tolerance {
			p.drop(plan)
			continue
		}
		fastest += cost
	}
	if p.ahead.on {
		p.expect()
	}
	p.solve()
}

// solve chooses strategies for the items, whose budgets can hold.
func (p *Planner) solve() bool {
	p.picks = slices.Grow(p.picks[:0], len(p.items))[:len(p.items)]
	_, ok := p.chain.Solve(p.items, p.picks)
	if !ok {
		clear(p.picks) // the fastest of each
	}
	return ok
}
