package modality

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gearshift/router/solve"
)

// Policy plans a queue of jobs. Jobs run in order of deadline, equal ones as given. The
// plan is valid until the next call. A policy is not safe for concurrent use.
type Policy interface {
	Plan(free float64, jobs []Job, plan *Plan)
}

// Aggressive gives every job the fastest strategy that meets its floor, at any load. It
// drops a job that is late even so.
type Aggressive struct{ queue }

// NewAggressive returns the policy.
func NewAggressive(t *Table) *Aggressive { return &Aggressive{queue{table: t}} }

// Plan implements [Policy].
func (p *Aggressive) Plan(free float64, jobs []Job, plan *Plan) {
	p.begin(free, jobs, plan)
	var at float64
	for _, i := range p.order {
		strategy, ok := p.table.fastest(&jobs[i])
		if !ok || at+p.table.front(&jobs[i])[strategy].Cost > p.budget(&jobs[i])+solve.Tolerance {
			plan.Dropped = append(plan.Dropped, i)
			continue
		}
		at = p.keep(i, &jobs[i], strategy, at, plan)
	}
}

// Agnostic knows nothing of modalities: every job uses the best strategy of its size, which
// as a rule is all inputs, and none is dropped, however late (MOSEL-20). The paper calls it
// none.
type Agnostic struct {
	queue
	drops bool
}

// NewAgnostic returns the policy.
func NewAgnostic(t *Table) *Agnostic { return &Agnostic{queue: queue{table: t}} }

// NewDropping returns the policy with admission: it drops a job that would be late. What a
// choice of inputs adds is what it has beyond this one.
func NewDropping(t *Table) *Agnostic { return &Agnostic{queue: queue{table: t}, drops: true} }

// Plan implements [Policy].
func (p *Agnostic) Plan(free float64, jobs []Job, plan *Plan) {
	p.begin(free, jobs, plan)
	var at float64
	for _, i := range p.order {
		front := p.table.front(&jobs[i])
		if p.drops && at+front[len(front)-1].Cost > p.budget(&jobs[i])+solve.Tolerance {
			plan.Dropped = append(plan.Dropped, i)
			continue
		}
		at = p.keep(i, &jobs[i], len(front)-1, at, plan)
	}
}

// Stop says when [Random] stops to look for time.
type Stop string

const (
	// StopByWait is the paper's Algorithm 1: the wait before the violator is within its
	// deadline, whose own time is left out. The violator may be late.
	StopByWait Stop = "alg1"
	// StopByFinish is the paper's text (section 7.1): the violator is done in time. The
	// violator is among the jobs that are sped up.
	StopByFinish Stop = "text"
)

// Random has jobs begin with their best strategy. For each one that would be late, in
// order, it gives jobs before it, drawn at random, each at most once, the fastest strategy
// that meets their floor, until there is time (MOSEL-13). If there is none it drops the
// violator.
type Random struct {
	queue
	stop   Stop
	rng    *rand.Rand
	chosen []int // strategies of the jobs kept, in order
	kept   []int
	draw   []int
}

// NewRandom returns the policy; it draws from rng.
func NewRandom(t *Table, stop Stop, rng *rand.Rand) (*Random, error) {
	if stop != StopByWait && stop != StopByFinish {
		return nil, fmt.Errorf("cannot make policy: random: %q; want %q or %q", stop, StopByWait, StopByFinish)
	}
	return &Random{queue: queue{table: t}, stop: stop, rng: rng}, nil
}

// Plan implements [Policy].
func (p *Random) Plan(free float64, jobs []Job, plan *Plan) {
	p.begin(free, jobs, plan)
	p.chosen, p.kept = p.chosen[:0], p.kept[:0]
	var wait float64 // what the jobs kept so far take
	for _, i := range p.order {
		j := &jobs[i]
		if _, ok := p.table.fastest(j); !ok {
			plan.Dropped = append(plan.Dropped, i)
			continue
		}
		p.kept, p.chosen = append(p.kept, i), append(p.chosen, len(p.table.front(j))-1)
		var ok bool
		if wait, ok = p.admit(jobs, wait); !ok {
			plan.Dropped = append(plan.Dropped, i)
			p.kept, p.chosen = p.kept[:len(p.kept)-1], p.chosen[:len(p.chosen)-1]
		}
	}
	var at float64
	for k, i := range p.kept {
		at = p.keep(i, &jobs[i], p.chosen[k], at, plan)
	}
}

// admit finds time for the last job kept, before which so much waits, and returns when it
// is done; without it, if it finds too little.
func (p *Random) admit(jobs []Job, wait float64) (done float64, ok bool) {
	last := len(p.kept) - 1
	budget := p.budget(&jobs[p.kept[last]])
	p.draw = p.draw[:0]
	for k := range p.kept {
		if k < last || p.stop == StopByFinish {
			p.draw = append(p.draw, k)
		}
	}
	own := p.cost(jobs, last)
	if wait+own <= budget+solve.Tolerance {
		return wait + own, true
	}
	for {
		if wait+own <= budget+solve.Tolerance || p.stop == StopByWait && wait <= budget+solve.Tolerance {
			return wait + own, true
		}
		if len(p.draw) == 0 {
			return wait, false
		}
		at := p.rng.IntN(len(p.draw))
		k := p.draw[at]
		p.draw = slices.Delete(p.draw, at, at+1)
		before := p.cost(jobs, k)
		p.chosen[k], _ = p.table.fastest(&jobs[p.kept[k]])
		if saved := before - p.cost(jobs, k); k == last {
			own -= saved
		} else {
			wait -= saved
		}
	}
}

func (p *Random) cost(jobs []Job, k int) float64 {
	return p.table.front(&jobs[p.kept[k]])[p.chosen[k]].Cost
}

// queue is what policies share: the table and the order of the jobs.
type queue struct {
	table *Table
	free  float64 // when the worker is free
	order []int
}

// begin empties the plan and sorts the jobs.
func (q *queue) begin(free float64, jobs []Job, plan *Plan) {
	plan.Steps, plan.Dropped, plan.Objective, plan.Gap = plan.Steps[:0], plan.Dropped[:0], 0, 0
	q.free = free
	q.order = q.order[:0]
	for i := range jobs {
		q.order = append(q.order, i)
	}
	byDeadline(q.order, jobs)
}

// budget is the time from when the worker is free to the job's deadline, and what their
// difference may have lost to rounding.
func (q *queue) budget(j *Job) float64 {
	largest := max(math.Abs(j.Deadline), math.Abs(q.free))
	return j.Deadline - q.free + (math.Nextafter(largest, math.Inf(1)) - largest)
}

// keep adds the job, begun so long after the worker is free, to the plan and returns when
// it is done.
func (q *queue) keep(i int, j *Job, strategy int, at float64, plan *Plan) (done float64) {
	s := q.table.front(j)[strategy]
	plan.Objective += s.Value
	plan.Steps = append(plan.Steps, Step{Job: i, Strategy: strategy, Finish: q.free + at + s.Cost})
	return at + s.Cost
}
