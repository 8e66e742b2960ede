package jobs

import (
	"cmp"
	"errors"
	"math"
	"slices"

	rm "gearshift/router/modality"
)

// pool decides which worker runs which parts of jobs, and when. Times are in milliseconds, and
// passed in. It is not safe for concurrent use.
type pool struct {
	stations []*station
	most     int     // parts that may wait for a worker
	avoid    float64 // how long a worker is avoided after a failure
	up       func(worker int) bool
	evict    func(x *part) // ends the job of a part that has lost its place; nil does nothing
	last     uint64
}

// station is a worker as it is planned.
type station struct {
	table      *rm.Table
	dispatcher *rm.Dispatcher
	waiting    map[string]*part
	running    *part
	last       *commit // the one that was begun last
	free       float64 // when it is expected to be free
	avoided    float64 // until then
}

// part is some requests of a job that may use the same options, or what is left of them.
type part struct {
	id       string
	of       *work
	rows     []int // of the job's requests, in order
	floor    float64
	deadline float64
	allowed  uint64
	failed   map[int]bool // workers whose engines have failed at it
	worker   int          // where it waits or runs
	begun    bool         // it has been committed before
}

func (x *part) job() rm.Job {
	return rm.Job{ID: x.id, Size: len(x.rows), MinQuality: x.floor, Deadline: x.deadline, Allowed: x.allowed}
}

// commit is what a worker is to run: some rows of the part by each of some options.
type commit struct {
	*part
	batches []batch
	quality float64
	expect  float64
	waiting int // others that wait for the worker
}

// batch is requests that an engine answers together by one of the planner's options.
type batch struct {
	option int
	rows   []int
}

// Why a part finds no worker.
var (
	errFull   = errors.New("too many jobs are waiting")
	errNoneUp = errors.New("no worker is up")
	errLate   = errors.New("no other worker has time")
	errSize   = errors.New("no worker takes so many requests at once")
)

func newStation(t *rm.Table, p rm.Policy, fixed bool) *station {
	s := &station{table: t, dispatcher: rm.NewDispatcher(t, p), waiting: map[string]*part{}}
	s.dispatcher.Fixed = fixed
	return s
}

// backlog is how long the worker is expected to be busy.
func (s *station) backlog(now float64) float64 {
	return max(0, s.free-now) + s.dispatcher.Backlog()
}

// place has the part wait for the worker with the smallest backlog. One that must be in time
// waits only where the plan keeps it. Where all workers are full it may evict another part.
func (p *pool) place(x *part, now float64, inTime bool) error {
	j, best, least, why := x.job(), -1, math.Inf(1), errNoneUp
	var evicted *part
	for i, s := range p.stations {
		switch {
		case x.failed[i] || p.up != nil && !p.up(i):
			continue
		case s.table.Check(&j) != nil:
			why = errSize
			continue
		case len(s.waiting) >= p.most:
			why = errFull
			if evicted == nil {
				evicted = s.evictable(x)
			}
			continue
		case inTime && !s.dispatcher.Preview(now, max(now, s.free), j)[0].Kept:
			why = errLate
			continue
		}
		backlog := s.backlog(now)
		if s.avoided > now { // where nothing else is left
			backlog += 1e12
		}
		if backlog < least {
			best, least = i, backlog
		}
	}
	if best < 0 && evicted != nil {
		best = evicted.worker
		p.remove(evicted)
		if p.evict != nil {
			p.evict(evicted)
		}
	}
	if best < 0 {
		return why
	}
	x.worker = best
	s := p.stations[best]
	s.waiting[x.id] = x
	s.dispatcher.Add(j, now)
	return nil
}

// evictable is the part that gives way to a new one where as many wait as may: the last one due of
// the tenants with the most, if they have more than the new one's would have, or else of the new one's
// own, if it is due later. It is nil if the new one has to give way.
func (s *station) evictable(x *part) (last *part) {
	counts := map[string]int{}
	for _, y := range s.waiting {
		counts[y.tenant()]++
	}
	own := counts[x.tenant()]
	most := own
	for _, n := range counts {
		if n > own+1 {
			most = max(most, n)
		}
	}
	for _, y := range s.waiting {
		gives := counts[y.tenant()] == most && (most > own || y.tenant() == x.tenant() && x.before(y))
		if gives && (last == nil || last.before(y)) {
			last = y
		}
	}
	return last
}

// tenant names whose job the part belongs to.
func (x *part) tenant() string {
	if x.of == nil {
		return ""
	}
	return x.of.Tenant
}

// next is what a worker that is free runs now; nil if there is nothing. Parts that its plan
// drops wait for another worker that has time, if there is one, and are returned if not.
func (p *pool) next(worker int, now float64) (c *commit, dropped []*part) {
	s := p.stations[worker]
	s.free = now
	committed, lost, ok := s.dispatcher.Next(now)
	for i := range lost {
		x := s.waiting[lost[i].ID]
		delete(s.waiting, x.id)
		if p.elsewhere(x, worker, now) != nil {
			dropped = append(dropped, x)
		}
	}
	if !ok {
		return nil, dropped
	}
	x := s.waiting[committed.Job.ID]
	delete(s.waiting, x.id)
	c = &commit{part: x, quality: committed.Quality, expect: committed.Expect, waiting: len(s.waiting)}
	rows := x.rows
	for option, n := range committed.Batches {
		if n > 0 {
			c.batches = append(c.batches, batch{option, rows[:n]})
			rows = rows[n:]
		}
	}
	s.running, s.last, s.free = x, c, now+committed.Expect
	return c, dropped
}

// elsewhere has the part wait for another worker than that one, if one has time.
func (p *pool) elsewhere(x *part, worker int, now float64) error {
	if len(p.stations) == 1 {
		return errLate
	}
	was := x.failed[worker]
	if x.failed == nil {
		x.failed = map[int]bool{}
	}
	x.failed[worker] = true
	err := p.place(x, now, true)
	x.failed[worker] = was
	return err
}

// waits reports whether any part does.
func (p *pool) waits() bool {
	return slices.ContainsFunc(p.stations, func(s *station) bool { return len(s.waiting) > 0 })
}

// takeOver has a part wait for the worker, which has nothing to do, that waits for a busy one: of the
// worker with the largest backlog the one that is due first, of those that this one would answer in
// time. It returns false if there is none.
func (p *pool) takeOver(worker int, now float64) bool {
	s := p.stations[worker]
	if s.avoided > now || p.up != nil && !p.up(worker) {
		return false
	}
	var best *part
	var least float64
	for i, other := range p.stations {
		if i == worker || other.running == nil { // which begins what waits for it itself
			continue
		}
		if backlog := other.backlog(now); best == nil || backlog > least {
			if x := other.first(func(x *part) bool { return p.fits(x, worker, now) }); x != nil {
				best, least = x, backlog
			}
		}
	}
	if best == nil {
		return false
	}
	p.remove(best)
	best.worker, s.waiting[best.id] = worker, best
	s.dispatcher.Adopt(best.job())
	return true
}

// fits reports whether the worker, which is free, would answer the part in time.
func (p *pool) fits(x *part, worker int, now float64) bool {
	j, s := x.job(), p.stations[worker]
	return !x.failed[worker] && s.table.Check(&j) == nil && s.dispatcher.Preview(now, now, j)[0].Kept
}

// first is the part that is due first of those that wait and fit; nil if none does.
func (s *station) first(fits func(*part) bool) (first *part) {
	for _, x := range s.waiting {
		if (first == nil || x.before(first)) && fits(x) {
			first = x
		}
	}
	return first
}

// before reports whether the part is due before the other one, or as soon and came first.
func (x *part) before(other *part) bool {
	return cmp.Or(cmp.Compare(x.deadline, other.deadline), cmp.Compare(len(x.id), len(other.id)), cmp.Compare(x.id, other.id)) < 0 // IDs are numbers
}

// ran reports how long a batch took.
func (p *pool) ran(worker int, b *batch, took float64) {
	p.stations[worker].dispatcher.Ran(b.option, len(b.rows), took)
}

// ended says that the worker has run what it was given, or has failed at it.
func (p *pool) ended(worker int, failed bool, now float64) {
	s := p.stations[worker]
	if s.running, s.free = nil, now; failed {
		s.avoided = now + p.avoid
	}
}

// again has a part that the worker has failed at wait for another one that has time.
func (p *pool) again(x *part, worker int, now float64) error {
	if x.failed == nil {
		x.failed = map[int]bool{}
	}
	x.failed[worker] = true
	return p.place(x, now, true)
}

// remove takes the part out of those that wait, if it does.
func (p *pool) remove(x *part) {
	s := p.stations[x.worker]
	if s.waiting[x.id] == x {
		delete(s.waiting, x.id)
		s.dispatcher.Remove(x.id)
	}
}

// preview is what the best worker would do with the parts if they came now; the worker is −1
// where none keeps them all.
func (p *pool) preview(parts []*part, now float64) (worker int, list []rm.Previewed, err error) {
	jobs := make([]rm.Job, len(parts))
	for i, x := range parts {
		jobs[i] = x.job()
	}
	worker, least, err := -1, math.Inf(1), errNoneUp
	for i, s := range p.stations {
		if p.up != nil && !p.up(i) {
			continue
		}
		if !s.takes(jobs) {
			err = errSize
			continue
		}
		each := s.dispatcher.Preview(now, max(now, s.free), jobs...)
		kept := true
		for _, e := range each {
			kept = kept && e.Kept
		}
		if backlog := s.backlog(now); kept && backlog < least {
			worker, least, list = i, backlog, each
		} else if !kept && worker < 0 {
			err = errLate
		}
	}
	if worker >= 0 {
		err = nil
	}
	return worker, list, err
}

// takes reports whether the worker's table has all of the jobs.
func (s *station) takes(jobs []rm.Job) bool {
	for i := range jobs {
		if s.table.Check(&jobs[i]) != nil {
			return false
		}
	}
	return true
}
