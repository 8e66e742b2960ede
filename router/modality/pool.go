package modality

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"
)

// Pool decides which of several workers runs which jobs, and when. Times are those of deadlines. It
// reads no clock, and is not safe for concurrent use.
type Pool struct {
	Workers []*Worker
	// Most bounds the jobs that wait for a worker; 0 does not.
	Most int
	// Up reports whether the worker takes jobs; nil is always.
	Up func(worker int) bool
	// Evict is called with a job that has lost its place to another, if set.
	Evict func(x *Entry)

	last uint64
}

// The reasons why a job finds no worker.
var (
	ErrFull   = errors.New("too many jobs are waiting")
	ErrNoneUp = errors.New("no worker is up")
	ErrLate   = errors.New("no other worker has time")
	ErrSize   = errors.New("no worker takes so many requests at once")
)

func (p *Pool) up(worker int) bool { return p.Up == nil || p.Up(worker) }

// Add lets a job that comes now wait for the worker with the smallest backlog, under a new ID. Where all
// workers are full it may evict another job.
func (p *Pool) Add(x *Entry, now float64) error {
	x.ID = strconv.FormatUint(p.last, 10)
	p.last++
	return p.Place(x, now)
}

// Place lets a job wait that keeps its ID: what is left of it.
func (p *Pool) Place(x *Entry, now float64) error { return p.place(x, now, -1) }

// Elsewhere lets a job wait for another worker than its own, of those that keep it in time.
func (p *Pool) Elsewhere(x *Entry, now float64) error { return p.place(x, now, x.Worker) }

// place is Place, or where the job has lost its place at a worker, Place at another that keeps it in time.
func (p *Pool) place(x *Entry, now float64, lost int) error {
	best, least, why := -1, math.Inf(1), ErrNoneUp
	var evicted *Entry
	for i, w := range p.Workers {
		switch {
		case i == lost || !p.up(i):
			continue
		case w.table.Check(&x.Job) != nil:
			why = ErrSize
			continue
		case p.Most > 0 && len(w.waiting) >= p.Most:
			why = ErrFull
			if evicted == nil {
				evicted = w.evictable(x)
			}
			continue
		case lost >= 0 && !w.Preview(now, max(now, w.free), x.Job)[0].Kept:
			why = ErrLate
			continue
		}
		if len(p.Workers) == 1 {
			best = i
		} else if backlog := w.Expected(now); backlog < least {
			best, least = i, backlog
		}
	}
	if best < 0 && evicted != nil {
		best = evicted.Worker
		p.Remove(evicted)
		if p.Evict != nil {
			p.Evict(evicted)
		}
	}
	if best < 0 {
		return why
	}
	x.Worker = best
	p.Workers[best].add(x, now)
	return nil
}

// evictable is the job that gives way to a new one where as many wait as may: the last one due of
// the tenants with the most, if they have more than the new one's would have, or else of the new one's
// own, if it is due later. It is nil if the new one has to give way.
func (w *Worker) evictable(x *Entry) (last *Entry) {
	counts := map[string]int{}
	for _, y := range w.waiting {
		counts[y.Tenant]++
	}
	own := counts[x.Tenant]
	most := own
	for _, n := range counts {
		if n > own+1 {
			most = max(most, n)
		}
	}
	for _, y := range w.waiting {
		gives := counts[y.Tenant] == most && (most > own || y.Tenant == x.Tenant && x.before(y))
		if gives && (last == nil || last.before(y)) {
			last = y
		}
	}
	return last
}

// Next returns what a worker that is free now runs; nil if there is nothing. If nothing waits for it, it
// takes over what waits for a busy one. Jobs that its plan drops wait for another worker that has time,
// if there is one, and are returned if not.
func (p *Pool) Next(worker int, now float64) (c *Commit, dropped []*Entry) {
	w := p.Workers[worker]
	w.free, w.Running = now, nil
	if len(w.waiting) == 0 && !p.takeOver(worker, now) {
		return nil, nil
	}
	return p.begin(worker, now, w.next)
}

// Commit is Next for a plan that [Worker.Plan] has made.
func (p *Pool) Commit(worker int, now float64) (c *Commit, dropped []*Entry) {
	w := p.Workers[worker]
	return p.begin(worker, now, func(float64) (*Commit, []*Entry) { return w.commit() })
}

// begin has the worker run what next commits.
func (p *Pool) begin(worker int, now float64, next func(now float64) (*Commit, []*Entry)) (c *Commit, dropped []*Entry) {
	w := p.Workers[worker]
	c, lost := next(now)
	for _, x := range lost {
		if len(p.Workers) == 1 || p.Elsewhere(x, now) != nil {
			dropped = append(dropped, x)
		}
	}
	if c != nil {
		c.Waiting = len(w.waiting)
		w.Running, w.Last, w.free = c, c, now+c.Expect
	}
	return c, dropped
}

// Ended notes that the worker runs nothing any more.
func (p *Pool) Ended(worker int, now float64) {
	p.Workers[worker].Running, p.Workers[worker].free = nil, now
}

// Waits reports whether any job does.
func (p *Pool) Waits() bool {
	return slices.ContainsFunc(p.Workers, func(w *Worker) bool { return len(w.waiting) > 0 })
}

// Each calls f with each job that waits for a worker, which f may remove.
func (p *Pool) Each(f func(x *Entry)) {
	for _, w := range p.Workers {
		for _, x := range slices.Clone(w.waiting) {
			f(x)
		}
	}
}

// takeOver lets a job wait for the worker, which has nothing to do, that waits for a busy one: of the
// worker with the largest backlog the one that is due first, of those that this one would answer in
// time. It returns false if there is none.
func (p *Pool) takeOver(worker int, now float64) bool {
	if !p.up(worker) {
		return false
	}
	w := p.Workers[worker]
	var best *Entry
	var least float64
	for i, other := range p.Workers {
		if i == worker || other.Running == nil { // which begins what waits for it itself
			continue
		}
		if backlog := other.Expected(now); best == nil || backlog > least {
			if x := other.first(func(x *Entry) bool { return w.fits(x, now) }); x != nil {
				best, least = x, backlog
			}
		}
	}
	if best == nil {
		return false
	}
	p.Remove(best)
	best.Worker = worker
	w.adopt(best)
	return true
}

// fits reports whether the worker, which is free, would answer the job in time.
func (w *Worker) fits(x *Entry, now float64) bool {
	return w.table.Check(&x.Job) == nil && w.Preview(now, now, x.Job)[0].Kept
}

// first is the job that is due first of those that wait and fit; nil if none does.
func (w *Worker) first(fits func(*Entry) bool) (first *Entry) {
	for _, x := range w.waiting {
		if (first == nil || x.before(first)) && fits(x) {
			first = x
		}
	}
	return first
}

// before reports whether the job is due before the other one, or as soon and came first.
func (x *Entry) before(other *Entry) bool {
	return cmp.Or(cmp.Compare(x.Deadline, other.Deadline), cmp.Compare(len(x.ID), len(other.ID)), cmp.Compare(x.ID, other.ID)) < 0 // IDs are numbers
}

// Remove takes the job out of those that wait, if it does.
func (p *Pool) Remove(x *Entry) {
	w := p.Workers[x.Worker]
	w.waiting = slices.DeleteFunc(w.waiting, func(y *Entry) bool { return x == y })
}

// Preview returns what the best worker would do with the jobs if they came now; the worker is −1
// where none keeps them all.
func (p *Pool) Preview(now float64, jobs ...Job) (worker int, list []Previewed, err error) {
	worker, least, err := -1, math.Inf(1), ErrNoneUp
	for i, w := range p.Workers {
		if !p.up(i) {
			continue
		}
		if slices.ContainsFunc(jobs, func(j Job) bool { return w.table.Check(&j) != nil }) {
			err = ErrSize
			continue
		}
		each := w.Preview(now, max(now, w.free), jobs...)
		kept := !slices.ContainsFunc(each, func(e Previewed) bool { return !e.Kept })
		if backlog := w.Expected(now); kept && backlog < least {
			worker, least, list = i, backlog, each
		} else if !kept && worker < 0 {
			err = ErrLate
		}
	}
	if worker >= 0 {
		err = nil
	}
	return worker, list, err
}
